#include "kernels/PeakLoops.h"

#include <immintrin.h>

namespace moek {

namespace {
// 16 accumulators: vpdpbusd and an FMA have a latency of 4 to 5 cycles, at most
// two start per cycle, so 10 chains would do; the others serve other CPUs.
constexpr int kChains = 16;

double int8Loop(int64_t iterations) {
  __m512i sums[kChains];
#pragma GCC unroll 16
  for (__m512i &sum : sums)
    sum = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) {
      sums[c] = _mm512_dpbusd_epi32(sums[c], a, b);
      // This hides the sum from the optimiser at no cost for the CPU.
      __asm__ volatile("" : "+v"(sums[c]));
    }
  }
  return 2.0 * 64 * kChains * double(iterations);
}

double floatLoop(int64_t iterations) {
  __m512 sums[kChains];
#pragma GCC unroll 16
  for (__m512 &sum : sums)
    sum = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(1.0f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) {
      sums[c] = _mm512_fmadd_ps(sums[c], a, b);
      __asm__ volatile("" : "+v"(sums[c]));
    }
  }
  return 2.0 * 16 * kChains * double(iterations);
}

/// Uses an extension that Isa::Avx512 does not include: call it only if
/// hostHasBf16Dot().
__attribute__((target("avx512bf16"))) double bf16Loop(int64_t iterations) {
  __m512 sums[kChains];
#pragma GCC unroll 16
  for (__m512 &sum : sums)
    sum = _mm512_setzero_ps();
  __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) {
      sums[c] = _mm512_dpbf16_ps(sums[c], ones, ones);
      __asm__ volatile("" : "+v"(sums[c]));
    }
  }
  return 2.0 * 32 * kChains * double(iterations);
}

uint64_t read(const std::byte *data, size_t bytes) {
  __m512i sums[4];
#pragma GCC unroll 16
  for (__m512i &sum : sums)
    sum = _mm512_setzero_si512();
  size_t i = 0;
  for (; i + 256 <= bytes; i += 256)
    for (int c = 0; c < 4; ++c)
      sums[c] =
          _mm512_xor_si512(sums[c], _mm512_loadu_si512(data + i + 64 * c));
  uint64_t tail = 0;
  for (; i < bytes; ++i)
    tail ^= static_cast<uint64_t>(data[i]);
  __m512i all = _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]),
                                 _mm512_xor_si512(sums[2], sums[3]));
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, all);
  for (uint64_t lane : lanes)
    tail ^= lane;
  return tail;
}
} // namespace

const PeakLoops kPeakAvx512 = {int8Loop, floatLoop, bf16Loop, read};

} // namespace moek
