//===- Rows16Tile.h - Unpacks interleaved tiles with AVX-512 ----*- C++ -*-===//
//
// Reads the layout of kernels/quant/Rows16.h:
//
//   w[r][c] = scale[r] * (code[r][c] - kZero) + kOffsetSign * offset[r]
//
// A tile's scales become float vectors over rows, its codes vectors of four
// columns by 16 rows.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_ROWS16TILE_H
#define MOE_KERNELS_CPU_AVX512_ROWS16TILE_H

#include "kernels/cpu/Rows16Traits.h"
#include "kernels/cpu/avx512/Int8Common.h"

namespace moek::avx512 {
namespace {

/// Bytes from one 32-column code part to the next.
template <int Bits> constexpr int kCodePart = 64 * Bits;

MOE_INLINE __m512i lowBits(__m512i bytes, int shift, char mask) {
  if (shift != 0)
    bytes = _mm512_srli_epi16(bytes, unsigned(shift));
  return _mm512_and_si512(bytes, _mm512_set1_epi8(mask));
}

/// Adds bits `from` ... of `bytes` to `codes`, moved to bits `to` ... under
/// `mask`.
MOE_INLINE __m512i addBits(__m512i codes, __m512i bytes, int from, int to,
                           char mask) {
  if (from > to)
    bytes = _mm512_srli_epi16(bytes, unsigned(from - to));
  else if (from < to)
    bytes = _mm512_slli_epi16(bytes, unsigned(to - from));
  return andOr(bytes, _mm512_set1_epi8(mask), codes);
}

/// Unpacks 32 columns: q[g] holds columns 4 g .. 4 g + 3 of 16 rows.
template <int Bits>
MOE_INLINE void groupCodes(const uint8_t *part, __m512i q[8]) {
  if constexpr (Bits == 8) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g)
      q[g] = load512(part + 64 * g);
  }
  if constexpr (Bits >= 4 && Bits <= 6) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      __m512i bytes = load512(part + 64 * v);
      q[v] = lowBits(bytes, 0, 15);
      q[v + 4] = lowBits(bytes, 4, 15);
    }
  }
  if constexpr (Bits == 2 || Bits == 3 || Bits == 6) {
    const uint8_t *pairs = part + (Bits == 6 ? 256 : 0);
#pragma GCC unroll 2
    for (int u = 0; u < 2; ++u) {
      __m512i bytes = load512(pairs + 64 * u);
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
    __m512i bytes = load512(part + 64 * kTop);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g)
      q[g] = addBits(q[g], bytes, g, kTop, char(1 << kTop));
  }
}

/// The same for codes of two or three bits, with the codes of odd groups
/// multiplied by four: this takes one shift per vector of bit pairs instead of
/// three.
template <int Bits>
MOE_INLINE void groupCodesByFour(const uint8_t *part, __m512i q[8]) {
  static_assert(Bits == 2 || Bits == 3);
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    q[g] = lowBits(load512(part + 64 * (g / 4)), g % 4 / 2 * 4, g % 2 ? 12 : 3);
    if constexpr (Bits == 3)
      q[g] =
          addBits(q[g], load512(part + 128), g, g % 2 ? 4 : 2, g % 2 ? 16 : 4);
  }
}

MOE_INLINE __m512 rowHalves(const uint8_t *from) {
  return _mm512_cvtph_ps(load256(from));
}

/// Converts bytes of 16 rows, signed or unsigned, to floats.
MOE_INLINE __m512 rowBytesSigned(__m128i bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
MOE_INLINE __m512 rowBytesUnsigned(__m128i bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}

/// Unpacks N six-bit numbers of 16 rows, four per vector of bytes.
template <int N>
MOE_INLINE void sixBits(const uint8_t *from, __m512i numbers[N / 4]) {
  static_assert(N == 16 || N == 8);
  if constexpr (N == 16) {
    __m512i low0 = load512(from), low1 = load512(from + 64);
    __m512i top = load512(from + 128);
    numbers[0] = addBits(lowBits(low0, 0, 15), top, 0, 4, 0x30);
    numbers[1] = addBits(lowBits(low1, 0, 15), top, 2, 4, 0x30);
    numbers[2] = addBits(lowBits(low0, 4, 15), top, 4, 4, 0x30);
    numbers[3] = addBits(lowBits(low1, 4, 15), top, 6, 4, 0x30);
  } else {
    // The top bits of numbers 0 .. 3 are in two vectors of 16 bytes, two bits
    // apart: {0, 2, 4, 6} and {1, 3, 5, 7}.
    __m512i low = load512(from);
    __m512i top = _mm512_castsi256_si512(load256(from + 64));
    __m512i pairs = _mm512_shuffle_i64x2(top, top, 0x44);
    __m512i shift =
        _mm512_setr_epi64(0, 0, 0, 0, 0x0002000200020002, 0x0002000200020002,
                          0x0002000200020002, 0x0002000200020002);
    __m512i first = _mm512_srlv_epi16(pairs, shift);
    numbers[0] = addBits(lowBits(low, 0, 15), first, 0, 4, 0x30);
    numbers[1] = addBits(lowBits(low, 4, 15), first, 4, 4, 0x30);
  }
}

/// A format's tile. Formats with kPairs have pairScales(), others scales() and,
/// with kHasNumbers, number().
template <Format F> struct Rows16Tile : Rows16Traits<F> {
  using Traits = Rows16Traits<F>;
  using Traits::kBits, Traits::kHasMinima, Traits::kHasNumbers,
      Traits::kHasValues, Traits::kIsFloats, Traits::kIsOffset1,
      Traits::kNumbersAt, Traits::kOffsets, Traits::kPairs, Traits::kScaleCode,
      Traits::kScalePart, Traits::kScales, Traits::kShiftCols, Traits::kSixBits;

  /// Returns d * kUnit of the rows, or else what their numbers are multiples
  /// of.
  MOE_INLINE static __m512 scale(const uint8_t *tile) {
    if constexpr (kIsFloats)
      return _mm512_set1_ps(kFloatsUnit);
    else if constexpr (Traits::kIsExponent)
      return exponents(_mm512_cvtepu8_epi32(load128(tile)));
    else if constexpr (Traits::kUnit != 1)
      return _mm512_mul_ps(rowHalves(tile), _mm512_set1_ps(Traits::kUnit));
    else
      return rowHalves(tile);
  }

  /// Unpacks columns 32 s .. 32 s + 31.
  MOE_INLINE static void codes(const uint8_t *tile, int s, __m512i q[8]) {
    const uint8_t *part = tile + kScalePart + s * kCodePart<kBits>;
    if constexpr (kShiftCols != 0)
      return shiftedCodes(part, tile + Traits::kShiftsAt, s, q);
    groupCodes<kBits>(part, q);
    if constexpr (kHasValues) {
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g)
        q[g] = valuesOf<typename Traits::Block>(q[g]);
    }
  }

  /// kPairs: unpacks them with the codes of odd groups multiplied by four.
  MOE_INLINE static void codesByFour(const uint8_t *tile, int s, __m512i q[8]) {
    groupCodesByFour<kBits>(tile + kScalePart + s * kCodePart<kBits>, q);
  }

  /// Scales and minima of six or four bits, unpacked to one byte each.
  struct Integers {
    alignas(64) uint8_t bytes[256];
  };
  MOE_INLINE static void unpack(const uint8_t *tile, Integers &to) {
    if constexpr (kSixBits != 0) {
      __m512i numbers[kSixBits / 4];
      sixBits<kSixBits>(tile + kNumbersAt, numbers);
#pragma GCC unroll 4
      for (int i = 0; i < kSixBits / 4; ++i)
        _mm512_store_si512(
            to.bytes + 64 * i,
            kHasMinima ? numbers[i]
                       : _mm512_sub_epi8(numbers[i], _mm512_set1_epi8(32)));
    }
    if constexpr (kScaleCode == ScaleCode::OddNibbles) {
      constexpr int kHalf = 8 * kScales; // Bytes of half the scales.
#pragma GCC unroll 2
      for (int i = 0; i < kHalf; i += 64) {
        __m512i pairs = load512(tile + kNumbersAt + i);
        __m512i one = _mm512_set1_epi8(1), mask = _mm512_set1_epi8(30);
        _mm512_store_si512(to.bytes + i,
                           andOr(_mm512_slli_epi16(pairs, 1), mask, one));
        _mm512_store_si512(to.bytes + kHalf + i,
                           andOr(_mm512_srli_epi16(pairs, 3), mask, one));
      }
    }
  }

  /// Returns the scale of columns kSub i ... as a multiple of scale().
  MOE_INLINE static __m512 number(const uint8_t *tile, const Integers &integers,
                                  int i) {
    static_assert(kHasNumbers && !kPairs);
    if constexpr (kIsFloats)
      return smallFloats(load128(tile + kNumbersAt + 16 * i));
    if constexpr (kHasMinima)
      return rowBytesUnsigned(load128(integers.bytes + 16 * i));
    return rowBytesSigned(load128(
        (kScaleCode == ScaleCode::Bytes ? tile + kNumbersAt : integers.bytes) +
        16 * i));
  }
  /// SixBitPairs: returns the minimum in the same way.
  MOE_INLINE static __m512 minimum(const Integers &integers, int i) {
    return rowBytesUnsigned(load128(integers.bytes + 128 + 16 * i));
  }

  /// Stores the 16 rows' numbers to scale[i] and offset[j], `Step` vectors
  /// apart.
  template <int Step>
  MOE_INLINE static void scales(const uint8_t *tile, float *scale,
                                float *offset) {
    __m512 d = Rows16Tile::scale(tile);
    auto put = [](float *to, int i, __m512 v) {
      _mm512_store_ps(to + 16 * Step * i, v);
    };
    if constexpr (!kHasNumbers) {
      put(scale, 0, d);
      if constexpr (kIsOffset1)
        put(offset, 0, rowHalves(tile + 32));
    } else {
      Integers integers;
      unpack(tile, integers);
#pragma GCC unroll 16
      for (int i = 0; i < kScales; ++i)
        put(scale, i, _mm512_mul_ps(d, number(tile, integers, i)));
      if constexpr (kHasMinima)
#pragma GCC unroll 8
        for (int i = 0; i < kOffsets; ++i)
          put(offset, i,
              _mm512_mul_ps(rowHalves(tile + 32), minimum(integers, i)));
    }
  }

  /// kPairs: returns the scales of columns 32 s .. 32 s + 15 and of the 16
  /// after them, as 16-bit numbers 2 r and 2 r + 1.
  MOE_INLINE static __m512i pairScales(const uint8_t *tile,
                                       const Integers &integers, int s) {
    if constexpr (kScaleCode == ScaleCode::SixBits)
      return _mm512_cvtepi8_epi16(load256(integers.bytes + 32 * s));
    return _mm512_and_si512(pairBytes(tile, s), _mm512_set1_epi16(15));
  }

  /// NibblePairs: returns the minima in the same order.
  MOE_INLINE static __m512i pairMinima(const uint8_t *tile, int s) {
    return _mm512_srli_epi16(pairBytes(tile, s), 4);
  }

private:
  /// kShiftCols: unpacks codes 8 * digit + 2 * shift.
  MOE_INLINE static void shiftedCodes(const uint8_t *part,
                                      const uint8_t *shifts, int s,
                                      __m512i q[8]) {
    static_assert(kBits == 2);
    constexpr int kEach = kShiftCols / 4; // Number of groups of 4 columns.
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      uint16_t rows;
      std::memcpy(&rows, shifts + 2 * ((8 * s + g) / kEach), sizeof(rows));
      q[g] = addBits(_mm512_maskz_set1_epi32(__mmask16(rows), 0x02020202),
                     load512(part + 64 * (g / 4)), g % 4 * 2, 3, 3 << 3);
    }
  }

  MOE_INLINE static __m512i pairBytes(const uint8_t *tile, int s) {
    return _mm512_cvtepu8_epi16(load256(tile + kNumbersAt + 32 * s));
  }
};

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_ROWS16TILE_H
