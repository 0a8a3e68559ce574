//===- Rows16Tile.h - Codes and scales of an interleaved tile ---*- C++ -*-===//
//
// What kernels/quant/Rows16.h says, read with AVX2: half a 64-byte vector is
// four columns of eight rows. Codes are unsigned for vpmaddubsw, except those
// of 8 bits (see Int8Common.h). Super-blocks keep their integer scales: a
// vpmaddwd that widens sums of products multiplies by them, too.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_ROWS16TILE_H
#define MOE_KERNELS_CPU_AVX2_ROWS16TILE_H

#include "kernels/cpu/Rows16Traits.h"
#include "kernels/cpu/avx2/Int8Common.h"
#include "kernels/cpu/avx2/Iq4Codes.h"

namespace moek::avx2 {
namespace {

MOE_INLINE __m256i lowBits(__m256i bytes, int shift, char mask) {
  if (shift != 0)
    bytes = _mm256_srli_epi16(bytes, shift);
  return _mm256_and_si256(bytes, _mm256_set1_epi8(mask));
}

/// Bits `from` .. of `bytes`, as bits `to` .. under `mask`, added to `codes`.
MOE_INLINE __m256i addBits(__m256i codes, __m256i bytes, int from, int to,
                           char mask) {
  if (from > to)
    bytes = _mm256_srli_epi16(bytes, from - to);
  else if (from < to)
    bytes = _mm256_slli_epi16(bytes, to - from);
  return _mm256_or_si256(codes,
                         _mm256_and_si256(bytes, _mm256_set1_epi8(mask)));
}

/// 32 columns: q[g] holds columns 4 g .. 4 g + 3 of the 8 rows whose half of
/// the first vector `part` points at.
template <int Bits>
MOE_INLINE void groupCodes(const uint8_t *part, __m256i q[8]) {
  if constexpr (Bits == 8) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g)
      q[g] = load256(part + 64 * g);
  }
  if constexpr (Bits >= 4 && Bits <= 6) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      __m256i bytes = load256(part + 64 * v);
      q[v] = lowBits(bytes, 0, 15);
      q[v + 4] = lowBits(bytes, 4, 15);
    }
  }
  if constexpr (Bits == 2 || Bits == 3 || Bits == 6) {
    const uint8_t *pairs = part + (Bits == 6 ? 256 : 0);
#pragma GCC unroll 2
    for (int u = 0; u < 2; ++u) {
      __m256i bytes = load256(pairs + 64 * u);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        int g = 4 * u + i;
        q[g] = Bits == 6 ? addBits(q[g], bytes, 2 * i, 4, 0x30)
                         : lowBits(bytes, 2 * i, 3);
      }
    }
  }
  if constexpr (Bits == 3 || Bits == 5) {
    constexpr int kTop = Bits - 1;
    __m256i bytes = load256(part + 64 * kTop);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g)
      q[g] = addBits(q[g], bytes, g, kTop, char(1 << kTop));
  }
}

/// N six-bit numbers of 16 rows, two to a vector of bytes, to `to`.
template <int N> MOE_INLINE void sixBits(const uint8_t *from, uint8_t *to) {
  constexpr int kLows = N / 4, kTops = N / 8;
#pragma GCC unroll 8
  for (int i = 0; i < N / 2; ++i) {
    __m256i low = lowBits(load256(from + 32 * (i % kLows)), i / kLows * 4, 15);
    __m256i tops = load256(from + 32 * (kLows + i % kTops));
    _mm256_store_si256(reinterpret_cast<__m256i *>(to + 32 * i),
                       addBits(low, tops, i / kTops * 2, 4, 0x30));
  }
}

/// A format's tile. Numbers over rows come for eight rows, `half` 0 or 1.
template <Format F> struct Rows16Tile : Rows16Traits<F> {
  using Traits = Rows16Traits<F>;
  using Traits::kBits, Traits::kCols, Traits::kHasMinima, Traits::kIq4,
      Traits::kPairs, Traits::kShape, Traits::kSub;

  /// Signed codes with zero at 0; others are 0 .. kMaxCode.
  static constexpr bool kSigned = kIq4 || F == Format::Q8_0;
  static constexpr int kMaxCode = kSigned ? 0 : (1 << kBits) - 1;
  static constexpr int kZero = kSigned ? 0 : Traits::kZero;
  /// Integer scales, and F16 d and dmin.
  static constexpr bool kSuper = kCols == 256;
  /// How many groups of four columns add up in int16 without overflow once
  /// kZero is off: additions may wrap on the way.
  static constexpr int kReach =
      kMaxCode - kZero > kZero ? kMaxCode - kZero : kZero;
  static constexpr int kChunk = kSigned ? 1
                                : 2 * 127 * kReach * kSub / 4 <= 32767
                                    ? kSub / 4
                                    : 4;
  static_assert(kSigned || 2 * 127 * kReach * kChunk <= 32767);
  static_assert(kSigned || kChunk == kSub / 4 || kZero == 0);

  /// Columns 32 s .. 32 s + 31 of 8 rows.
  MOE_INLINE_MEMBER static void codes(const uint8_t *tile, int s, int half,
                                      __m256i q[8]) {
    groupCodes<kBits>(
        tile + 16 * kShape.scaleBytes + 64 * kBits * s + 32 * half, q);
    if constexpr (kIq4) {
      __m256i table = _mm256_broadcastsi128_si256(load128(kIq4Values));
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g)
        q[g] = _mm256_shuffle_epi8(table, q[g]);
    }
    if constexpr (F == Format::Q8_0) {
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g)
        q[g] = _mm256_xor_si256(q[g], _mm256_set1_epi8(char(0x80)));
    }
  }

  /// d (`i` 0) and m or dmin (`i` 1).
  MOE_INLINE_MEMBER static __m256 factor(const uint8_t *tile, int i, int half) {
    return _mm256_cvtph_ps(load128(tile + 32 * i + 16 * half));
  }

  /// Integer scales and minima, a byte each.
  struct Integers {
    alignas(32) uint8_t bytes[512];
  };
  MOE_INLINE_MEMBER static void unpack(const uint8_t *tile, Integers &to) {
    if constexpr (kHasMinima)
      sixBits<16>(tile + 64, to.bytes);
    if constexpr (F == Format::Q3_K || F == Format::IQ4_XS) {
      sixBits<256 / kSub>(tile + 32, to.bytes);
#pragma GCC unroll 8
      for (int i = 0; i < 128 / kSub; ++i) {
        auto *at = reinterpret_cast<__m256i *>(to.bytes + 32 * i);
        _mm256_store_si256(
            at, _mm256_sub_epi8(_mm256_load_si256(at), _mm256_set1_epi8(32)));
      }
    }
    if constexpr (F == Format::Q2_K) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        __m256i bytes = load256(tile + 64 + 32 * i);
        auto *at = reinterpret_cast<__m256i *>(to.bytes + 32 * i);
        _mm256_store_si256(at, lowBits(bytes, 0, 15));
        _mm256_store_si256(at + 8, lowBits(bytes, 4, 15));
      }
    }
  }

  /// The scale of columns kSub i .. twice per row as int16.
  MOE_INLINE_MEMBER static __m256i
  scale(const uint8_t *tile, const Integers &integers, int i, int half) {
    const uint8_t *bytes = F == Format::Q6_K ? tile + 32 : integers.bytes;
    if constexpr (F == Format::Q3_K || F == Format::Q6_K ||
                  F == Format::IQ4_XS) {
      // To the upper byte, from where the sign spreads.
      __m256i words = _mm256_shuffle_epi8(rowsOf(bytes, i, half),
                                          rowIndex(i, int(0x00800080)));
      return _mm256_srai_epi16(words, 8);
    }
    return _mm256_shuffle_epi8(rowsOf(bytes, i, half),
                               rowIndex(i, int(0x80008000)));
  }

  /// The minimum of columns kOffsetSub i ..
  MOE_INLINE_MEMBER static __m256 minimum(const Integers &integers, int i,
                                          int half) {
    const uint8_t *bytes = integers.bytes + (kHasMinima ? 128 : 256);
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(
        rowsOf(bytes, i, half), rowIndex(i, int(0x80808000))));
  }

private:
  /// In each 128-bit lane, the bytes of eight rows' numbers `i`.
  MOE_INLINE_MEMBER static __m256i rowsOf(const uint8_t *bytes, int i,
                                          int half) {
    if constexpr (kPairs)
      return _mm256_broadcastsi128_si256(
          load128(bytes + i / 2 * 32 + 16 * half));
    int64_t rows;
    std::memcpy(&rows, bytes + 16 * i + 8 * half, sizeof(rows));
    return _mm256_set1_epi64x(rows);
  }
  /// A shuffle that puts row r's byte of rowsOf() where `pattern` has 0 in
  /// 32-bit lane r and zero where it has 0x80.
  MOE_INLINE_MEMBER static __m256i rowIndex(int i, int pattern) {
    constexpr int kStep = (kPairs ? 2 : 1) * 0x01010101;
    __m256i first =
        _mm256_set1_epi32(pattern + (kPairs && i % 2 ? 0x01010101 : 0));
    return _mm256_add_epi32(
        first, _mm256_setr_epi32(0, kStep, 2 * kStep, 3 * kStep, 4 * kStep,
                                 5 * kStep, 6 * kStep, 7 * kStep));
  }
};

/// a + b, in this order: GCC would reorder a chain of such sums, compute all
/// products before the first of them and spill those.
MOE_INLINE __m256i addInOrder16(__m256i a, __m256i b) {
  __m256i sum = _mm256_add_epi16(a, b);
  __asm__("" : "+x"(sum));
  return sum;
}
MOE_INLINE __m256i addInOrder32(__m256i a, __m256i b) {
  __m256i sum = _mm256_add_epi32(a, b);
  __asm__("" : "+x"(sum));
  return sum;
}

/// What the accumulators of 16-bit sums start from: kZero times activations,
/// negative, in the lane that gets the products of the same columns. All 32-bit
/// lanes of a 128-bit half are equal; the lower half is for the first kSub
/// columns at `q`, the upper one for the columns after them (with kSub 32 both
/// are for 32 columns).
template <int Zero, int Sub> MOE_INLINE __m256i laneStarts(const int8_t *q) {
  __m256i sums = _mm256_maddubs_epi16(_mm256_set1_epi8(Zero), load256(q));
  sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0x4e));
  sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0xb1));
  if constexpr (Sub == 32)
    sums = _mm256_add_epi16(sums, _mm256_permute4x64_epi64(sums, 0x4e));
  return _mm256_sub_epi16(_mm256_setzero_si256(), sums);
}

} // namespace
} // namespace moek::avx2

#endif // MOE_KERNELS_CPU_AVX2_ROWS16TILE_H
