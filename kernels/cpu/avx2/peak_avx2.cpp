#include "kernels/PeakLoops.h"
#include "kernels/cpu/avx2/Bytes.h"
#include "kernels/cpu/lanes8/Rows16Tile.h"

#include <immintrin.h>

namespace moek {

namespace {
// 11 of 16 registers are chains; 5 are left for operands.
constexpr int kChains = 11;

// The loop of a gemm with small codes: products of 32 columns add up in 16 bits
// before one vpmaddwd widens them.
double int8Loop(int64_t iterations) {
  constexpr int kSteps = 8;
  __m256i wide = _mm256_setzero_si256(), ones = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5);
  int64_t rounds = (iterations + kSteps - 1) / kSteps;
  for (int64_t i = 0; i < rounds; ++i) {
    __m256i sums[kChains];
#pragma GCC unroll 12
    for (__m256i &sum : sums)
      sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int s = 0; s < kSteps; ++s)
#pragma GCC unroll 12
      for (int c = 0; c < kChains; ++c) {
        __m256i factor = a;
        __asm__ volatile("" : "+x"(factor));
        sums[c] = _mm256_add_epi16(sums[c], _mm256_maddubs_epi16(factor, b));
        __asm__ volatile("" : "+x"(sums[c]));
      }
#pragma GCC unroll 12
    for (const __m256i &sum : sums)
      wide = _mm256_add_epi32(wide, _mm256_madd_epi16(sum, ones));
    __asm__ volatile("" : "+x"(wide));
  }
  return 2.0 * 32 * kChains * kSteps * double(rounds);
}

/// panelDots() with operands that are in registers: kChunk products add up in
/// 16 bits before vpmaddwd widens them. Eight sums, as of four tokens.
template <Format F> double productLoop(int64_t iterations) {
  using Tile = avx2::Rows16Tile<F>;
  constexpr int kTokens = 4, kGroups = 8, kSums = 2 * kTokens;
  __m256i wide[kSums];
#pragma GCC unroll 8
  for (__m256i &sum : wide)
    sum = _mm256_setzero_si256();
  __m256i codes = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5);
  __m256i scale = _mm256_set1_epi16(1);
  int64_t rounds = (iterations + kGroups - 1) / kGroups;
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 8
    for (int chunk = 0; chunk < kGroups / Tile::kChunk; ++chunk) {
      __m256i sums[kSums];
#pragma GCC unroll 8
      for (int g = 0; g < Tile::kChunk; ++g) {
        __m256i low = codes, high = codes;
        __asm__ volatile("" : "+x"(low), "+x"(high));
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          __m256i factor = x;
          __asm__ volatile("" : "+x"(factor));
#pragma GCC unroll 2
          for (int h = 0; h < 2; ++h) {
            __m256i products =
                avx2::products16<Tile>(h == 0 ? low : high, factor);
            __m256i &sum = sums[2 * t + h];
            sum = g == 0 ? products : avx2::addInOrder16(sum, products);
          }
        }
      }
#pragma GCC unroll 8
      for (int c = 0; c < kSums; ++c) {
        wide[c] = _mm256_add_epi32(wide[c], _mm256_madd_epi16(sums[c], scale));
        __asm__ volatile("" : "+x"(wide[c]));
      }
    }
  return 2.0 * 32 * kSums * kGroups * double(rounds);
}

double products(Format format, int64_t iterations) {
  switch (format) {
#define MOE_BLOCK_FORMAT(name, ...)                                            \
  case Format::name:                                                           \
    return productLoop<Format::name>(iterations);
#include "kernels/quant/Formats.def"
  default:
    return int8Loop(iterations);
  }
}

double floatLoop(int64_t iterations) {
  __m256 sums[kChains];
#pragma GCC unroll 16
  for (__m256 &sum : sums)
    sum = _mm256_setzero_ps();
  __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(1.0f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      sums[c] = _mm256_fmadd_ps(sums[c], a, b);
      __asm__ volatile("" : "+x"(sums[c]));
    }
  }
  return 2.0 * 8 * kChains * double(iterations);
}

uint64_t read(const std::byte *data, size_t bytes) {
  __m256i sums[4];
#pragma GCC unroll 16
  for (__m256i &sum : sums)
    sum = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 128 <= bytes; i += 128)
    for (int c = 0; c < 4; ++c)
      sums[c] = _mm256_xor_si256(
          sums[c], _mm256_loadu_si256(
                       reinterpret_cast<const __m256i *>(data + i + 32 * c)));
  uint64_t tail = 0;
  for (; i < bytes; ++i)
    tail ^= static_cast<uint64_t>(data[i]);
  __m256i all = _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]),
                                 _mm256_xor_si256(sums[2], sums[3]));
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i *>(lanes), all);
  for (uint64_t lane : lanes)
    tail ^= lane;
  return tail;
}
} // namespace

const PeakLoops kPeakAvx2 = {int8Loop, floatLoop, nullptr, read, products};

} // namespace moek
