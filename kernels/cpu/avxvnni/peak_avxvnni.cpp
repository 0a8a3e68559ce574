#include "kernels/PeakLoops.h"

#include <immintrin.h>

namespace moek {

namespace {
// More chains than two starts per cycle and a latency of 5 need, as in the loop
// for AVX-512; two registers are left to operands.
constexpr int kChains = 12;

double int8Loop(int64_t iterations) {
  __m256i sums[kChains];
#pragma GCC unroll 12
  for (__m256i &sum : sums)
    sum = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      sums[c] = _mm256_dpbusd_avx_epi32(sums[c], a, b);
      __asm__ volatile("" : "+x"(sums[c]));
    }
  }
  return 2.0 * 32 * kChains * double(iterations);
}
} // namespace

const PeakLoops kPeakAvxVnni = {int8Loop, nullptr, nullptr, nullptr};

} // namespace moek
