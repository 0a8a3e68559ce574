#include "kernels/PeakLoops.h"

#include <arm_neon.h>

namespace moek {

namespace {
constexpr int kChains = 24; // Same number as in NEON's loop.

double int8Loop(int64_t iterations) {
  int32x4_t sums[kChains];
#pragma GCC unroll 24
  for (int32x4_t &sum : sums)
    sum = vdupq_n_s32(0);
  int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(5);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) {
      sums[c] = vmmlaq_s32(sums[c], a, b);
      __asm__ volatile("" : "+w"(sums[c]));
    }
  }
  return 2.0 * 32 * kChains * double(iterations);
}
} // namespace

const PeakLoops kPeakNeonI8mm = {int8Loop, nullptr, nullptr, nullptr};

} // namespace moek
