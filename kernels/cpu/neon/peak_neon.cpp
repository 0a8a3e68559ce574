#include "kernels/PeakLoops.h"

#include <arm_neon.h>

namespace moek {

namespace {
// Two registers are left to operands, and more chains than four starts per
// cycle and a latency of 4 need.
constexpr int kChains = 24;

double int8Loop(int64_t iterations) {
  int32x4_t sums[kChains];
#pragma GCC unroll 24
  for (int32x4_t &sum : sums)
    sum = vdupq_n_s32(0);
  int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(5);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) {
      sums[c] = vdotq_s32(sums[c], a, b);
      __asm__ volatile("" : "+w"(sums[c]));
    }
  }
  return 2.0 * 16 * kChains * double(iterations);
}

double floatLoop(int64_t iterations) {
  float32x4_t sums[kChains];
#pragma GCC unroll 24
  for (float32x4_t &sum : sums)
    sum = vdupq_n_f32(0);
  float32x4_t a = vdupq_n_f32(0.5f), b = vdupq_n_f32(1.0f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) {
      sums[c] = vfmaq_f32(b, sums[c], a);
      __asm__ volatile("" : "+w"(sums[c]));
    }
  }
  return 2.0 * 4 * kChains * double(iterations);
}

uint64_t read(const std::byte *data, size_t bytes) {
  const auto *from = reinterpret_cast<const uint8_t *>(data);
  uint8x16_t sums[8];
#pragma GCC unroll 8
  for (uint8x16_t &sum : sums)
    sum = vdupq_n_u8(0);
  size_t i = 0;
  for (; i + 128 <= bytes; i += 128)
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c)
      sums[c] = veorq_u8(sums[c], vld1q_u8(from + i + 16 * c));
  uint64_t tail = 0;
  for (; i < bytes; ++i)
    tail ^= from[i];
  for (uint8x16_t sum : sums) {
    uint64x2_t lanes = vreinterpretq_u64_u8(sum);
    tail ^= vgetq_lane_u64(lanes, 0) ^ vgetq_lane_u64(lanes, 1);
  }
  return tail;
}
} // namespace

const PeakLoops kPeakNeon = {int8Loop, floatLoop, nullptr, read};

} // namespace moek
