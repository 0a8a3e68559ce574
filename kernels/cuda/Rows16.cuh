//===- Rows16.cuh - Reads weights in panels of sixteen rows -----*- C++ -*-===//
//
// GPUs read the same layout as CPUs (kernels/quant/Rows16.h): experts that a
// prompt streams to a GPU are in the CPU's memory, and nothing is stored twice.
// The layout fits: a 64-byte vector has four neighbouring columns of sixteen
// rows, so sixteen bytes belong to four rows and can be used as rows of an mma
// operand.
//
// A warp takes two panels, 32 weight rows. Lane 4 g + c reads sixteen bytes of
// panel g / 4: rows 4 (g % 4) .. + 3, which are rows 4 g .. 4 g + 3 of the two
// panels together, and column groups c and c + 4 of the eight groups of four
// columns in a unit. Its rows 0 and 1 become rows g and g + 8 of one mma, rows
// 2 and 3 those of another; groups c and c + 4 are the columns of operand A
// that the lane must hold. So lanes exchange nothing.
//
// A unit is 32 columns. A block of the format has kTileUnits of them; sixteen
// rows of a block are a tile of a panel: its scales, then the codes of each
// unit.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_ROWS16_CUH
#define MOE_KERNELS_CUDA_ROWS16_CUH

#include "kernels/cuda/Formats.cuh"

#if MOE_FORMAT == MOE_IQ1_S
#define MOE_BITS 2
#define MOE_SCALE_BYTES 7
#define MOE_ZERO 9
#elif MOE_FORMAT == MOE_IQ1_M
#define MOE_BITS 2
#define MOE_SCALE_BYTES 14
#define MOE_ZERO 9
#elif MOE_FORMAT == MOE_Q2_K
#define MOE_BITS 2
#define MOE_SCALE_BYTES 20
#elif MOE_FORMAT == MOE_IQ2_XXS
#define MOE_BITS 3
#define MOE_SCALE_BYTES 6
#elif MOE_FORMAT == MOE_IQ2_XS || MOE_FORMAT == MOE_IQ2_S
#define MOE_BITS 3
#define MOE_SCALE_BYTES 10
#elif MOE_FORMAT == MOE_Q3_K
#define MOE_BITS 3
#define MOE_SCALE_BYTES 14
#define MOE_ZERO 4
#elif MOE_FORMAT == MOE_Q4_0
#define MOE_BITS 4
#define MOE_SCALE_BYTES 2
#define MOE_ZERO 8
#elif MOE_FORMAT == MOE_IQ4_NL
#define MOE_BITS 4
#define MOE_SCALE_BYTES 2
#elif MOE_FORMAT == MOE_MXFP4
#define MOE_BITS 4
#define MOE_SCALE_BYTES 1
#elif MOE_FORMAT == MOE_NVFP4
#define MOE_BITS 4
#define MOE_SCALE_BYTES 4
#elif MOE_FORMAT == MOE_IQ3_XXS || MOE_FORMAT == MOE_IQ3_S
#define MOE_BITS 4
#define MOE_SCALE_BYTES 6
#elif MOE_FORMAT == MOE_IQ4_XS
#define MOE_BITS 4
#define MOE_SCALE_BYTES 8
#elif MOE_FORMAT == MOE_Q4_1
#define MOE_BITS 4
#define MOE_SCALE_BYTES 4
#elif MOE_FORMAT == MOE_Q4_K
#define MOE_BITS 4
#define MOE_SCALE_BYTES 16
#elif MOE_FORMAT == MOE_Q5_0
#define MOE_BITS 5
#define MOE_SCALE_BYTES 2
#define MOE_ZERO 16
#elif MOE_FORMAT == MOE_Q5_1
#define MOE_BITS 5
#define MOE_SCALE_BYTES 4
#elif MOE_FORMAT == MOE_Q5_K
#define MOE_BITS 5
#define MOE_SCALE_BYTES 16
#elif MOE_FORMAT == MOE_Q6_K
#define MOE_BITS 6
#define MOE_SCALE_BYTES 18
#define MOE_ZERO 32
#elif MOE_FORMAT == MOE_Q8_0
#define MOE_BITS 8
#define MOE_SCALE_BYTES 2
#define MOE_ZERO 128
#endif

#ifdef MOE_VALUES
#define MOE_A_SIGNED ///< Makes operand A of mma signed.
#endif
/// value = scale * code + min
#if MOE_FORMAT == MOE_Q4_1 || MOE_FORMAT == MOE_Q5_1 ||                        \
    MOE_FORMAT == MOE_Q4_K || MOE_FORMAT == MOE_Q5_K || MOE_FORMAT == MOE_Q2_K
#define MOE_MIN
#endif
/// A code is eight times a digit of two bits, plus twice a shift bit that
/// columns share: all columns of a unit, or (MOE_SHIFTS 4) each eight of them.
#if MOE_FORMAT == MOE_IQ1_S
#define MOE_SHIFTS 1
#elif MOE_FORMAT == MOE_IQ1_M
#define MOE_SHIFTS 4
#endif
/// Columns 0 .. 15 and 16 .. 31 of a unit have separate scales.
#if MOE_FORMAT == MOE_Q2_K || MOE_FORMAT == MOE_Q3_K ||                        \
    MOE_FORMAT == MOE_Q6_K || MOE_FORMAT == MOE_IQ1_M ||                       \
    MOE_FORMAT == MOE_IQ2_XS || MOE_FORMAT == MOE_IQ2_S ||                     \
    MOE_FORMAT == MOE_NVFP4
#define MOE_HALVES
constexpr int kHalves = 2;
#else
constexpr int kHalves = 1;
#endif

#ifdef MOE_ZERO
constexpr int kZero = MOE_ZERO; ///< The code that means weight 0.
#else
constexpr int kZero = 0;
#endif

/// Units of a tile; bytes of its scales, of the codes of a unit, and of all.
constexpr int kTileUnits = kBlockElements / 32;
constexpr int kScalePart = 16 * MOE_SCALE_BYTES;
constexpr int kUnitBytes = 64 * MOE_BITS;
constexpr int kTileBytes = kScalePart + kTileUnits * kUnitBytes;
#ifndef MOE_DIGITS // Grid formats take more bytes in panels than in files.
static_assert(kTileBytes == 16 * kBlockBytes);
#endif

#include "kernels/cuda/Mma.cuh"

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

/// Number of 16-byte words that a lane reads of a unit.
constexpr int kWords = MOE_BITS == 4                    ? 1
                       : MOE_BITS == 3 || MOE_BITS == 6 ? 3
                                                        : 2;

struct Codes {
  uint4 word[kWords];
#ifdef MOE_SHIFTS
  u32 shifts; ///< Same meaning as in UnitScales.
#endif
};

/// Loads a lane's codes. `unit` is where the unit's codes begin, plus 16 (g %
/// 4), which is where the lane's four rows begin in each 64 bytes.
MOE_DEVICE void loadCodes(Codes &codes, const u8 *unit, int c) {
#if MOE_BITS == 8
  codes.word[0] = loadOnce(unit + 64 * c);
  codes.word[1] = loadOnce(unit + 64 * c + 256);
#elif MOE_BITS >= 4
  codes.word[0] = loadOnce(unit + 64 * c);
#if MOE_BITS > 4 // Vectors are shared by the four lanes of a row group.
  codes.word[1] = loadOnce(unit + 256);
#endif
#if MOE_BITS == 6
  codes.word[2] = loadOnce(unit + 320);
#endif
#else
  codes.word[0] = loadOnce(unit);
  codes.word[1] = loadOnce(unit + 64);
#if MOE_BITS == 3
  codes.word[2] = loadOnce(unit + 128);
#endif
#endif
}

#ifdef MOE_VALUES
/// Returns values 4 i .. 4 i + 3 as bytes.
MOE_DEVICE constexpr u32 valuesFrom(int i) {
  constexpr int kValues[] = {MOE_VALUES};
  u32 word = 0;
  for (int k = 0; k < 4; ++k)
    word |= u32(kValues[4 * i + k] & 255) << (8 * k);
  return word;
}
/// Returns the format's values of the four nibbles in the low half of `n`, as
/// bytes. A prmt selects from eight bytes: for sixteen values it takes one prmt
/// for each half of the table, and a third one in which the nibbles' top bits
/// select between the results.
MOE_DEVICE u32 lookUp(u32 n) {
#if MOE_BITS == 3
  // __byte_perm would clear the selectors' top bits, which select a byte's
  // sign; they are zero here anyway.
  constexpr u32 kTable[2] = {valuesFrom(0), valuesFrom(1)};
  u32 values;
  asm("prmt.b32 %0, %1, %2, %3;"
      : "=r"(values)
      : "r"(kTable[0]), "r"(kTable[1]), "r"(n));
  return values;
#else
  constexpr u32 kTable[4] = {valuesFrom(0), valuesFrom(1), valuesFrom(2),
                             valuesFrom(3)};
  u32 which = n & 0x7777;
  u32 low = __byte_perm(kTable[0], kTable[1], which);
  u32 high = __byte_perm(kTable[2], kTable[3], which);
  return __byte_perm(low, high, 0x3210 | (n & 0x8888) >> 1);
#endif
}
#endif

/// Computes (x & mask) | y, in one instruction.
MOE_DEVICE u32 maskedOr(u32 x, u32 mask, u32 y) {
  u32 z;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(z) : "r"(x), "r"(mask), "r"(y));
  return z;
}

/// Rotates left by `i` bits, or right by -i: a shift after which a mask must
/// remove the bits that came from a neighbouring byte.
MOE_DEVICE u32 rotated(u32 w, int i) { return __funnelshift_l(w, w, i); }

#ifdef MOE_SHIFTS
/// Returns the shifts of codes of group `group` in a row: 0 or 2 per byte.
MOE_DEVICE u32 shiftOf(const Codes &codes, int row, int group) {
  u32 spread, which = MOE_SHIFTS == 1 ? 0 : group / 2;
  // The row's bit moves to the top of a byte, whose sign then fills four bytes.
  asm("prmt.b32 %0, %1, 0, %2;"
      : "=r"(spread)
      : "r"(codes.shifts << (7 - row)), "r"(0x8888 + 0x1111 * which));
  return spread & 0x02020202;
}
#endif

/// Codes of a row as registers of operand A: four bytes of column group c in
/// `low`, and of group c + 4 in `high`.
struct RowCodes {
  u32 low, high;
};
/// Returns the word of row `row` of four.
MOE_DEVICE u32 part(const uint4 &v, int row) {
  return row == 0 ? v.x : row == 1 ? v.y : row == 2 ? v.z : v.w;
}
/// Unpacks the codes of row `row` of the lane's four.
MOE_DEVICE RowCodes rowCodes(const Codes &codes, int row, int c) {
  u32 w = part(codes.word[0], row);
#if MOE_BITS == 8
  return {w, part(codes.word[1], row)};
#elif defined(MOE_VALUES)
#if MOE_BITS == 3
  u32 odd = rotated(part(codes.word[1], row), 4 - 2 * c);
  u32 top = rotated(part(codes.word[2], row), 2 - c);
  w = maskedOr(top, 0x44444444,
               maskedOr(odd, 0x30303030, rotated(w, -2 * c) & 0x03030303));
#endif
  // Nibbles 0, 2, 4, 6 are group c, the others group c + 4.
  u32 first = lookUp(w), second = lookUp(w >> 16);
  return {__byte_perm(first, second, 0x6420),
          __byte_perm(first, second, 0x7531)};
#elif MOE_BITS >= 4
  RowCodes r = {w & 0x0f0f0f0f, w >> 4 & 0x0f0f0f0f};
#if MOE_BITS == 5
  u32 top = part(codes.word[1], row);
  r.low |= (top >> c & 0x01010101) << 4;
  r.high |= (top >> (c + 4) & 0x01010101) << 4;
#elif MOE_BITS == 6
  r.low |= (part(codes.word[1], row) >> (2 * c) & 0x03030303) << 4;
  r.high |= (part(codes.word[2], row) >> (2 * c) & 0x03030303) << 4;
#endif
  return r;
#elif defined(MOE_SHIFTS)
  u32 other = part(codes.word[1], row);
  return {maskedOr(rotated(w, 3 - 2 * c), 0x18181818, shiftOf(codes, row, c)),
          maskedOr(rotated(other, 3 - 2 * c), 0x18181818,
                   shiftOf(codes, row, c + 4))};
#else
  RowCodes r = {w >> (2 * c) & 0x03030303,
                part(codes.word[1], row) >> (2 * c) & 0x03030303};
#if MOE_BITS == 3
  u32 top = part(codes.word[2], row);
  r.low |= (top >> c & 0x01010101) << 2;
  r.high |= (top >> (c + 4) & 0x01010101) << 2;
#endif
  return r;
#endif
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// The scales that a block has for four rows, as stored. NVFP4 has none.
struct BlockScales {
  uint2 d, m;
};
/// The additional scales that a unit has for four rows, as stored.
struct UnitScales {
  uint2 low, top;
#ifdef MOE_SHIFTS
  /// Bit r of byte i: the shift of row r in columns 8 i .. 8 i + 7.
  u32 shifts;
#endif
};

MOE_DEVICE uint2 load8(const u8 *p) { return __ldg((const uint2 *)p); }
MOE_DEVICE u32 load4(const u8 *p) { return __ldg((const u32 *)p); }

/// Loads four or eight bytes of scales.
struct FromMemory {
  __device__ u32 four(const u8 *p) { return load4(p); }
  __device__ uint2 eight(const u8 *p) { return load8(p); }
};
/// Most loads of a BlockScales and a UnitScales together.
constexpr int kScaleLoads = 4;

/// Load a lane's scales from the tile at `tile`: those of the block, and those
/// of its unit `u`. `quad` is g % 4: the lane's rows are the four from 4 quad
/// on. `from` is asked for the same bytes in the same order each time.
template <class From>
MOE_DEVICE void loadScales(BlockScales &block, const u8 *tile, int quad,
                           From &from) {
#if MOE_FORMAT == MOE_MXFP4 // The scale of a row has one byte.
  block.d.x = from.four(tile + 4 * quad);
#elif MOE_FORMAT != MOE_NVFP4
  block.d = from.eight(tile + 8 * quad);
#endif
#ifdef MOE_MIN
  block.m = from.eight(tile + 32 + 8 * quad);
#endif
}
template <class From>
MOE_DEVICE void loadScales(UnitScales &unit, const u8 *tile, int u, int quad,
                           From &from) {
#if MOE_FORMAT == MOE_Q4_K || MOE_FORMAT == MOE_Q5_K
  unit.low.x = from.four(tile + 64 + 16 * u + 4 * quad);
  unit.top.x = from.four(tile + 192 + 16 * (u % 4) + 4 * quad);
#elif MOE_FORMAT == MOE_IQ4_XS
  unit.low.x = from.four(tile + 32 + 16 * (u % 4) + 4 * quad);
  unit.top.x = from.four(tile + 96 + 16 * (u % 2) + 4 * quad);
#elif MOE_FORMAT == MOE_Q3_K
  unit.low = from.eight(tile + 32 + 32 * (u % 4) + 8 * quad);
  unit.top = from.eight(tile + 160 + 32 * (u % 2) + 8 * quad);
#elif MOE_FORMAT == MOE_Q6_K
  unit.low.x = from.four(tile + 32 + 32 * u + 4 * quad);
  unit.low.y = from.four(tile + 48 + 32 * u + 4 * quad);
#elif MOE_FORMAT == MOE_NVFP4
  unit.low.x = from.four(tile + 32 * u + 4 * quad);
  unit.low.y = from.four(tile + 32 * u + 16 + 4 * quad);
#elif MOE_FORMAT == MOE_Q2_K
  unit.low = from.eight(tile + 64 + 32 * u + 8 * quad);
#elif defined(MOE_DIGITS)
  const u8 *odd = tile + 32 + 4 * quad;
#ifdef MOE_HALVES
  unit.low.x = from.four(odd + 32 * (u % 4));
  unit.low.y = from.four(odd + 32 * (u % 4) + 16);
#else
  unit.low.x = from.four(odd + 16 * (u % 4));
#endif
#if MOE_SHIFTS == 1
  unit.shifts =
      from.four(tile + 96 + u / 2 * 4) >> (u % 2 * 16 + 4 * quad) & 15;
#elif MOE_SHIFTS == 4
  uint2 bits = from.eight(tile + 160 + 8 * u);
  unit.shifts =
      __byte_perm(bits.x >> (4 * quad), bits.y >> (4 * quad), 0x6420) &
      0x0f0f0f0f;
#endif
#endif
}

MOE_DEVICE void loadScales(BlockScales &block, const u8 *tile, int quad) {
  FromMemory from;
  loadScales(block, tile, quad, from);
}
MOE_DEVICE void loadScales(UnitScales &unit, const u8 *tile, int u, int quad) {
  FromMemory from;
  loadScales(unit, tile, u, quad, from);
}

/// Returns one of four F16 numbers.
MOE_DEVICE float halfOf(const uint2 &four, int row) {
  u32 word = row < 2 ? four.x : four.y;
  return f16ToFloat(u16(row % 2 ? word >> 16 : word));
}
/// Returns byte `i` minus `zero` as a float, without a conversion: the byte is
/// put into the mantissa of 2^23, from which 2^23 + zero is subtracted.
MOE_DEVICE float byteOf(u32 word, int i, int zero) {
  return __int_as_float(int(__byte_perm(word, 0x4b000000, 0x7440 + i))) -
         (8388608.0f + zero);
}
/// Returns byte `half` of the two that a row has in a pair of words, minus
/// `zero`.
MOE_DEVICE float byteOf(const uint2 &words, int row, int half, int zero) {
  return byteOf(row < 2 ? words.x : words.y, row % 2 * 2 + half, zero);
}

/// Returns half of the E4M3 number in byte `i`, which has no sign. Its bits are
/// those of a float with another bias, also below the normal range.
MOE_DEVICE float halfOfE4m3(u32 word, int i) {
  u32 bits = (i < 3 ? word << (20 - 8 * i) : word >> 4) & 0x07f00000;
  return __int_as_float(int(bits)) * 0x1p119f;
}

/// A unit's scales and minima as integers, one byte each. x has four rows. With
/// halves, y has those of the second half or, where a row's two numbers are
/// adjacent (Q2_K, Q3_K), x has rows 0 and 1 and y rows 2 and 3.
struct Integers {
  uint2 scale, min;
};
MOE_DEVICE Integers integersOf(const UnitScales &unit, int u) {
  Integers n{};
#if MOE_FORMAT == MOE_Q4_K || MOE_FORMAT == MOE_Q5_K
  // Number u is a scale, number 8 + u a minimum.
  u32 top = unit.top.x >> (u / 4 * 2);
  n.scale.x = (unit.low.x & 0x0f0f0f0f) | (top & 0x03030303) << 4;
  n.min.x = (unit.low.x >> 4 & 0x0f0f0f0f) | (top >> 4 & 0x03030303) << 4;
#elif MOE_FORMAT == MOE_IQ4_XS
  n.scale.x = (unit.low.x >> (u / 4 * 4) & 0x0f0f0f0f) |
              (unit.top.x >> (u / 2 * 2) & 0x03030303) << 4;
#elif MOE_FORMAT == MOE_Q3_K
  // Numbers 2 u and 2 u + 1.
  n.scale.x = (unit.low.x >> (u / 4 * 4) & 0x0f0f0f0f) |
              (unit.top.x >> (u / 2 * 2) & 0x03030303) << 4;
  n.scale.y = (unit.low.y >> (u / 4 * 4) & 0x0f0f0f0f) |
              (unit.top.y >> (u / 2 * 2) & 0x03030303) << 4;
#elif MOE_FORMAT == MOE_Q6_K
  n.scale = unit.low; // These scales are signed.
#elif MOE_FORMAT == MOE_Q2_K
  n.scale.x = unit.low.x & 0x0f0f0f0f;
  n.scale.y = unit.low.y & 0x0f0f0f0f;
  n.min.x = unit.low.x >> 4 & 0x0f0f0f0f;
  n.min.y = unit.low.y >> 4 & 0x0f0f0f0f;
#elif defined(MOE_DIGITS)
  // 2 n + 1, where n is the low nibble if u < 4.
  n.scale.x = (rotated(unit.low.x, 1 - u / 4 * 4) & 0x1e1e1e1e) | 0x01010101;
#ifdef MOE_HALVES
  n.scale.y = (rotated(unit.low.y, 1 - u / 4 * 4) & 0x1e1e1e1e) | 0x01010101;
#endif
#endif
  return n;
}

/// A unit's factors, by half and row: value = scale * code + min.
struct Factors {
  float scale[kHalves][4];
#ifdef MOE_MIN
  float min[kHalves][4];
#endif
};

/// Scale and minimum of row `r` of a block.
MOE_DEVICE float scaleOf(const BlockScales &block, int r) {
#if MOE_FORMAT == MOE_MXFP4
  return exponentToFloat(block.d.x >> (8 * r) & 255);
#elif MOE_FORMAT == MOE_NVFP4
  return 1;
#else
  return halfOf(block.d, r);
#endif
}
MOE_DEVICE float minOf(const BlockScales &block, int r) {
  return halfOf(block.m, r);
}
/// The same as floats, converted once for a block of which several units are
/// multiplied.
struct BlockFloats {
  float scale[4], min[4];
};
MOE_DEVICE float scaleOf(const BlockFloats &block, int r) {
  return block.scale[r];
}
MOE_DEVICE float minOf(const BlockFloats &block, int r) { return block.min[r]; }
MOE_DEVICE BlockFloats floatsOf(const BlockScales &block) {
  BlockFloats f;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    f.scale[r] = scaleOf(block, r);
#ifdef MOE_MIN
    f.min[r] = minOf(block, r);
#endif
  }
  return f;
}

/// Computes the factors of unit `u` of a block for the lane's four rows; scales
/// of grid formats include kUnit.
template <class Block>
MOE_DEVICE void decode(Factors &f, const Block &block, const UnitScales &unit,
                       int u) {
  [[maybe_unused]] Integers n = integersOf(unit, u);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    [[maybe_unused]] float d = scaleOf(block, r);
#ifdef MOE_MIN
    float m = minOf(block, r);
#endif
#if MOE_FORMAT == MOE_Q4_K || MOE_FORMAT == MOE_Q5_K
    f.scale[0][r] = d * byteOf(n.scale.x, r, 0);
    f.min[0][r] = -m * byteOf(n.min.x, r, 0);
#elif MOE_FORMAT == MOE_IQ4_XS
    f.scale[0][r] = d * byteOf(n.scale.x, r, 32);
#elif MOE_FORMAT == MOE_Q3_K
    f.scale[0][r] = d * byteOf(n.scale, r, 0, 32);
    f.scale[1][r] = d * byteOf(n.scale, r, 1, 32);
#elif MOE_FORMAT == MOE_Q6_K
    f.scale[0][r] = d * byteOf(n.scale.x ^ 0x80808080, r, 128);
    f.scale[1][r] = d * byteOf(n.scale.y ^ 0x80808080, r, 128);
#elif MOE_FORMAT == MOE_NVFP4
    f.scale[0][r] = halfOfE4m3(unit.low.x, r);
    f.scale[1][r] = halfOfE4m3(unit.low.y, r);
#elif MOE_FORMAT == MOE_Q2_K
    f.scale[0][r] = d * byteOf(n.scale, r, 0, 0);
    f.scale[1][r] = d * byteOf(n.scale, r, 1, 0);
    f.min[0][r] = -m * byteOf(n.min, r, 0, 0);
    f.min[1][r] = -m * byteOf(n.min, r, 1, 0);
#elif defined(MOE_DIGITS)
    f.scale[0][r] = d * kUnit * byteOf(n.scale.x, r, 0);
#ifdef MOE_HALVES
    f.scale[1][r] = d * kUnit * byteOf(n.scale.y, r, 0);
#endif
#else
    f.scale[0][r] = d;
#ifdef MOE_MIN
    f.min[0][r] = m;
#endif
#endif
  }
}

#endif // MOE_KERNELS_CUDA_ROWS16_CUH
