//===- Rows16Tile.h - Unpacks interleaved tiles -----------------*- C++ -*-===//
//
// Reads the layout of kernels/quant/Rows16.h: half of one of its 64-byte
// vectors is four columns of eight rows. Codes are unsigned, except where
// products take none above 127 (see kSignedCodes). Super-blocks keep their
// integer scales: the vpmaddwd that widens 16-bit sums of products multiplies
// by them as well. With dot products (kHasDots) they are floats that multiply
// exact sums.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LANES8_ROWS16TILE_H
#define MOE_KERNELS_CPU_LANES8_ROWS16TILE_H

#include "kernels/cpu/Rows16Traits.h"
#include "kernels/cpu/lanes8/Int8Common.h"

namespace moek::MOE_ISA {
namespace {

MOE_INLINE Ints lowBits(Ints bytes, int shift, char mask) {
  if (shift != 0)
    bytes = shiftRight16(bytes, shift);
  return bitAnd(bytes, set8(mask));
}

/// Adds bits `from` ... of `bytes` to `codes`, moved to bits `to` ... under
/// `mask`.
MOE_INLINE Ints addBits(Ints codes, Ints bytes, int from, int to, char mask) {
  if (from > to)
    bytes = shiftRight16(bytes, from - to);
  else if (from < to)
    bytes = shiftLeft16(bytes, to - from);
  return bitOr(codes, bitAnd(bytes, set8(mask)));
}

/// Returns columns 4 g .. 4 g + 3 of a code part's 32, for the 8 rows whose
/// half of the first vector `part` points at.
template <int Bits> MOE_INLINE Ints groupCode(const uint8_t *part, int g) {
  if constexpr (Bits == 8)
    return load256(part + 64 * g);
  constexpr bool kNibbles = Bits >= 4;
  Ints code = kNibbles ? lowBits(load256(part + 64 * (g % 4)), g / 4 * 4, 15)
                       : lowBits(load256(part + 64 * (g / 4)), g % 4 * 2, 3);
  if constexpr (Bits == 6)
    code =
        addBits(code, load256(part + 256 + 64 * (g / 4)), g % 4 * 2, 4, 0x30);
  if constexpr (Bits == 3 || Bits == 5)
    code = addBits(code, load256(part + 64 * (Bits - 1)), g, Bits - 1,
                   char(1 << (Bits - 1)));
  return code;
}

/// Unpacks N six-bit numbers of 16 rows, two per vector of bytes, to `to`.
template <int N> MOE_INLINE void sixBits(const uint8_t *from, uint8_t *to) {
  constexpr int kLows = N / 4, kTops = N / 8;
#pragma GCC unroll 8
  for (int i = 0; i < N / 2; ++i) {
    Ints low = lowBits(load256(from + 32 * (i % kLows)), i / kLows * 4, 15);
    Ints tops = load256(from + 32 * (kLows + i % kTops));
    store((to + 32 * i), addBits(low, tops, i / kTops * 2, 4, 0x30));
  }
}

/// A format's tile. Vectors over rows have eight rows, those of `half` 0 or 1.
template <Format F> struct Rows16Tile : Rows16Traits<F> {
  using Traits = Rows16Traits<F>;
  using Traits::kBits, Traits::kCols, Traits::kHasMinima, Traits::kHasValues,
      Traits::kNumbersAt, Traits::kScaleCode, Traits::kScalePart,
      Traits::kScales, Traits::kShiftCols, Traits::kSixBits, Traits::kSub;

  /// Signed codes have zero at 0; others are 0 .. kMaxCode.
  static constexpr bool kSigned = kSignedCodes<typename Traits::Block>;
  static constexpr int kMaxCode = kSigned ? 0 : Traits::kMaxCode;
  static constexpr int kZero = kSigned ? 0 : Traits::kZero;
  /// The format has integer scales, and F16 d and dmin.
  static constexpr bool kSuper = Traits::kIsSuper;
  /// Integer sums of 32 columns: those of each 16 have a float scale, or all
  /// have one, or they were multiplied with integer scales.
  static constexpr int kSums = Traits::kIsFloats ? 2 : 1;
  /// Number of groups of four columns that add up in int16 without overflow
  /// once kZero is subtracted; intermediate sums may wrap.
  static constexpr int kReach =
      Traits::kHigh > -Traits::kLow ? Traits::kHigh : -Traits::kLow;
  static constexpr int kChunk = 2 * 127 * kReach * kSub / 4 <= 32767 ? kSub / 4
                                : 2 * 127 * kReach * 4 <= 32767      ? 4
                                : 2 * 127 * kReach * 2 <= 32767      ? 2
                                                                     : 1;
  static_assert(2 * 127 * kReach * kChunk <= 32767);
  static_assert(kHasDots || kSigned || kChunk == kSub / 4 || kZero == 0);
  static_assert(kSums == 1 || kChunk == 4);

  /// Returns columns 32 s + 4 g ... of 8 rows.
  MOE_INLINE static Ints code(const uint8_t *tile, int s, int half, int g) {
    const uint8_t *part = tile + kScalePart + 64 * kBits * s + 32 * half;
    if constexpr (kShiftCols != 0)
      return addBits(shifts(tile, (8 * s + g) / (kShiftCols / 4), half),
                     load256(part + 64 * (g / 4)), g % 4 * 2, 3, 3 << 3);
    Ints code = groupCode<kBits>(part, g);
    if constexpr (kHasValues)
      return valuesOf<typename Traits::Block>(code);
    if constexpr (kSigned)
      return bitXor(code, set8(char(0x80)));
    return code;
  }

  /// Returns d * kUnit (`i` 0) or m or dmin (`i` 1).
  MOE_INLINE static Floats factor(const uint8_t *tile, int i, int half) {
    if constexpr (Traits::kIsExponent)
      return exponents(unsigned32(load64(tile + 8 * half)));
    Floats numbers = halves(load128(tile + 32 * i + 16 * half));
    if constexpr (Traits::kUnit != 1)
      return Simd::mul(numbers, Simd::set(Traits::kUnit));
    return numbers;
  }

  /// ScaleCode::Floats: returns scale number `i`.
  MOE_INLINE static Floats floatScale(const uint8_t *tile, int i, int half) {
    return floatScales(load64(tile + kNumbersAt + 16 * i + 8 * half));
  }

  /// Scales and minima of six or four bits, unpacked to one byte each.
  struct Integers {
    alignas(32) uint8_t bytes[256];
  };
  MOE_INLINE static void unpack(const uint8_t *tile, Integers &to) {
    if constexpr (kSixBits != 0)
      sixBits<kSixBits>(tile + kNumbersAt, to.bytes);
    if constexpr (kScaleCode == ScaleCode::SixBits) {
#pragma GCC unroll 8
      for (int i = 0; i < kSixBits / 2; ++i) {
        uint8_t *at = to.bytes + 32 * i;
        store(at, sub8(load256(at), set8(32)));
      }
    }
    if constexpr (kScaleCode == ScaleCode::OddNibbles) {
      constexpr int kHalf = 8 * kScales; // Bytes of half the scales.
#pragma GCC unroll 4
      for (int i = 0; i < kHalf; i += 32) {
        Ints pairs = load256(tile + kNumbersAt + i);
        auto odd = [](Ints twice) {
          return bitOr(bitAnd(twice, set8(30)), set8(1));
        };
        uint8_t *at = to.bytes + i;
        store(at, odd(shiftLeft16(pairs, 1)));
        store(at + kHalf, odd(shiftRight16(pairs, 3)));
      }
    }
  }

  /// kSub 16: returns the scale of columns 32 s ... and that of the 16 after
  /// them, row after row, as int16.
  MOE_INLINE static Ints pairScales(const uint8_t *tile,
                                    const Integers &integers, int s, int half) {
    if constexpr (kScaleCode == ScaleCode::NibblePairs)
      return bitAnd(pairBytes(tile, s, half), set16(15));
    if constexpr (kScaleCode == ScaleCode::SixBits)
      return signed16(load128(integers.bytes + 32 * s + 16 * half));
    const uint8_t *first =
        (kScaleCode == ScaleCode::Bytes ? tile + kNumbersAt : integers.bytes) +
        32 * s + 8 * half;
    return signed16(interleave(load64(first), load64(first + 16)));
  }
  /// NibblePairs: returns the minima in the same order.
  MOE_INLINE static Ints pairMinima(const uint8_t *tile, int s, int half) {
    return shiftRight16(pairBytes(tile, s, half), 4);
  }
  /// Returns the first (`i` 0) or second number of each pair, twice.
  MOE_INLINE static Ints ofPairs(Ints pairs, int i) {
    Ints first = twice(bytes16(0x0504050401000100, 0x0d0c0d0c09080908));
    return shuffle(pairs, add8(set8(2 * i), first));
  }

  /// Returns the scale of columns 32 s + kSub i ... twice per row, as int16.
  MOE_INLINE static Ints scale(const uint8_t *tile, const Integers &integers,
                               int s, int i, int half) {
    if constexpr (kSub == 16)
      return ofPairs(pairScales(tile, integers, s, half), i);
    Ints rows = rowsOf(kScaleCode == ScaleCode::Bytes ? tile + kNumbersAt
                                                      : integers.bytes,
                       s, half);
    if constexpr (kHasMinima)
      return shuffle(rows, rowIndex(int(0x80008000)));
    // Move the byte to the upper half, from where the shift extends the sign.
    return shiftSigned16(shuffle(rows, rowIndex(int(0x00800080))), 8);
  }

  /// Returns a scale(), which each row has twice, as floats. A sum of 32
  /// columns times its scales is below 2^24, so it is exact as a float.
  MOE_INLINE static Floats floatsOf(Ints scales) {
    constexpr int kMost = kScaleCode == ScaleCode::Bytes         ? 128
                          : kScaleCode == ScaleCode::SixBits     ? 32
                          : kScaleCode == ScaleCode::SixBitPairs ? 63
                          : kScaleCode == ScaleCode::NibblePairs ? 15
                                                                 : 31;
    static_assert(32 * 127 * kReach * kMost < 1 << 24);
    return toFloats(shiftSigned32(scales, 16));
  }

  /// Returns the minimum of columns 32 s + kOffsetSub i ...
  MOE_INLINE static Floats minimum(const uint8_t *tile,
                                   const Integers &integers, int s, int i,
                                   int half) {
    if constexpr (kScaleCode == ScaleCode::NibblePairs) {
      Ints twice = ofPairs(pairMinima(tile, s, half), i);
      return toFloats(shiftRight32(twice, 16));
    }
    return toFloats(shuffle(rowsOf(integers.bytes + 128, s, half),
                            rowIndex(int(0x80808000))));
  }

private:
  /// kShiftCols: returns 2 in the codes of the rows whose bit `i` is set.
  MOE_INLINE static Ints shifts(const uint8_t *tile, int i, int half) {
    Ints rows = set32(tile[Traits::kShiftsAt + 2 * i + half]);
    Ints bit = list32(1, 2, 4, 8, 16, 32, 64, 128);
    Ints isSet = equal32(bitAnd(rows, bit), bit);
    return bitAnd(isSet, set8(2));
  }
  /// NibblePairs: returns the bytes of eight rows' scale and minimum pairs, as
  /// words.
  MOE_INLINE static Ints pairBytes(const uint8_t *tile, int s, int half) {
    return unsigned16(load128(tile + kNumbersAt + 32 * s + 16 * half));
  }
  /// Returns the bytes of eight rows' numbers `i`, in each 128-bit lane.
  MOE_INLINE static Ints rowsOf(const uint8_t *bytes, int i, int half) {
    uint64_t rows;
    std::memcpy(&rows, bytes + 16 * i + 8 * half, sizeof(rows));
    return set64(rows);
  }
  /// Returns a shuffle that, in 32-bit lane r, puts row r's byte of rowsOf()
  /// where `pattern` has 0 and zero where it has 0x80.
  MOE_INLINE static Ints rowIndex(int pattern) {
    constexpr int kStep = 0x01010101;
    return add32(set32(pattern),
                 list32(0, kStep, 2 * kStep, 3 * kStep, 4 * kStep, 5 * kStep,
                        6 * kStep, 7 * kStep));
  }
};

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_LANES8_ROWS16TILE_H
