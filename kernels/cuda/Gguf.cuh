//===- Gguf.cuh - Decodes elements of rows as in the file -------*- C++ -*-===//
//
// valueAt() computes one element as dequantize() of kernels/quant/<format>.h
// does, with the same roundings. It reads bytes, because a block may begin at
// any address. It serves weights that are read once per step, and those that
// were not repacked.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_GGUF_CUH
#define MOE_KERNELS_CUDA_GGUF_CUH

#include "kernels/cuda/Formats.cuh"

#ifdef MOE_DIGITS
// These are templates, so that an image contains only the grid that it uses.
#define MOE_GRID(name, rows, ...)                                              \
  template <int> static __constant__ u16 kDigits##name[rows] = {__VA_ARGS__};
#include "kernels/quant/Grids.def"
#endif
#ifdef MOE_VALUES
static __constant__ i8 kValues[] = {MOE_VALUES};
#endif

namespace gguf {

MOE_DEVICE float half(const u8 *p) { return f16ToFloat(loadU16(p)); }
/// Compute d * code, d * code + m, and d * scale * code - dmin * min.
MOE_DEVICE float scaled(float d, int code) { return __fmul_rn(d, float(code)); }
MOE_DEVICE float scaled(float d, int code, float m) {
  return __fadd_rn(scaled(d, code), m);
}
MOE_DEVICE float scaled(float d, int scale, int code, float dmin, int min) {
  return __fsub_rn(scaled(scaled(d, scale), code), scaled(dmin, min));
}

/// The code in a nibble: byte i of 16 has elements i and i + 16.
MOE_DEVICE int nibble16(const u8 *codes, int e) {
  return codes[e % 16] >> (e / 16 * 4) & 15;
}
/// Bit 4 of element e in Q5_0 and Q5_1.
MOE_DEVICE int fifthBit(const u8 *high, int e) {
  return (high[e / 8] >> (e % 8) & 1) << 4;
}
/// Unpack a scale and a minimum, see kernels/quant/KScales.h.
MOE_DEVICE int kScale(const u8 *p, int s) {
  return s < 4 ? p[s] & 63 : (p[s + 4] & 15) | (p[s - 4] >> 6) << 4;
}
MOE_DEVICE int kMin(const u8 *p, int s) {
  return s < 4 ? p[s + 4] & 63 : p[s + 4] >> 4 | (p[s] >> 6) << 4;
}

#ifdef MOE_DIGITS
/// Element e's digit in row `row` of the grid; the row has elements e / 8 * 8
/// ... or e / 4 * 4 ...
MOE_DEVICE int digit8(int row, int e) {
  return MOE_DIGITS<0>[row] >> (e % 8 * 2) & 3;
}
MOE_DEVICE int digit4(int row, int e) {
  return MOE_DIGITS<0>[row] >> (e % 4 * 3) & 7;
}
/// The sign of element e. Of eight signs seven are stored; their parity is
/// even.
MOE_DEVICE int evenSign(u32 seven, int e) {
  return e % 8 == 7 ? __popc(int(seven & 127)) & 1 : seven >> (e % 8) & 1;
}
/// The scale 2 n + 1, where n is nibble s of `p` (low nibble first).
MOE_DEVICE int oddNibble(const u8 *p, int s) {
  return 2 * (p[s / 2] >> (s % 2 * 4) & 15) + 1;
}
MOE_DEVICE float gridValue(float d, int scale, int code) {
  return scaled(scaled(d * kUnit, scale), code);
}
#endif

MOE_DEVICE float valueAt(const u8 *row, i64 col) {
#if MOE_FORMAT == MOE_F32
  const u8 *p = row + 4 * col;
  if ((u64(p) & 3) == 0)
    return *(const float *)p;
  return __int_as_float(int(loadU16(p) | u32(loadU16(p + 2)) << 16));
#elif MOE_FORMAT == MOE_F16
  return half(row + 2 * col);
#elif MOE_FORMAT == MOE_BF16
  return bf16ToFloat(loadU16(row + 2 * col));
#else
  const u8 *b = row + col / kBlockElements * kBlockBytes;
  int e = int(col % kBlockElements);
#if MOE_FORMAT == MOE_Q4_0
  return scaled(half(b), nibble16(b + 2, e) - 8);
#elif MOE_FORMAT == MOE_Q4_1
  return scaled(half(b), nibble16(b + 4, e), half(b + 2));
#elif MOE_FORMAT == MOE_Q5_0
  return scaled(half(b), (nibble16(b + 6, e) | fifthBit(b + 2, e)) - 16);
#elif MOE_FORMAT == MOE_Q5_1
  return scaled(half(b), nibble16(b + 8, e) | fifthBit(b + 4, e), half(b + 2));
#elif MOE_FORMAT == MOE_Q8_0
  return scaled(half(b), i8(b[2 + e]));
#elif MOE_FORMAT == MOE_IQ4_NL
  return scaled(half(b), kValues[nibble16(b + 2, e)]);
#elif MOE_FORMAT == MOE_MXFP4
  return scaled(exponentToFloat(b[0]), kValues[nibble16(b + 1, e)]);
#elif MOE_FORMAT == MOE_NVFP4
  int s = e / 16;
  return scaled(e4m3ToFloat(b[s]),
                kValues[b[4 + 8 * s + e % 8] >> (e / 8 % 2 * 4) & 15]);
#elif MOE_FORMAT == MOE_IQ4_XS
  int s = e / 32;
  int scale =
      (b[4 + s / 2] >> (s % 2 * 4) & 15) | (loadU16(b + 2) >> (2 * s) & 3) << 4;
  return scaled(scaled(half(b), scale - 32),
                kValues[nibble16(b + 8 + 16 * s, e % 32)]);
#elif MOE_FORMAT == MOE_Q2_K
  int code = b[16 + e / 128 * 32 + e % 32] >> (e / 32 % 4 * 2) & 3;
  int scale = b[e / 16];
  return scaled(half(b + 80), scale & 15, code, half(b + 82), scale >> 4);
#elif MOE_FORMAT == MOE_Q3_K
  const u8 *scales = b + 96;
  int code = (b[32 + e / 128 * 32 + e % 32] >> (e / 32 % 4 * 2) & 3) |
             (b[e % 32] >> (e / 32) & 1) << 2;
  int s = e / 16;
  int scale = (scales[s % 8] >> (s / 8 * 4) & 15) |
              (scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4;
  return scaled(scaled(half(b + 108), scale - 32), code - 4);
#elif MOE_FORMAT == MOE_Q4_K
  int code = b[16 + e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15;
  return scaled(half(b), kScale(b + 4, e / 32), code, half(b + 2),
                kMin(b + 4, e / 32));
#elif MOE_FORMAT == MOE_Q5_K
  int code = (b[48 + e / 64 * 32 + e % 32] >> (e / 32 % 2 * 4) & 15) |
             (b[16 + e % 32] >> (e / 32) & 1) << 4;
  return scaled(half(b), kScale(b + 4, e / 32), code, half(b + 2),
                kMin(b + 4, e / 32));
#elif MOE_FORMAT == MOE_Q6_K
  int half128 = e / 128, k = e / 32 % 4, i = e % 32;
  int code = (b[64 * half128 + 32 * (k % 2) + i] >> (k / 2 * 4) & 15) |
             (b[128 + 32 * half128 + i] >> (2 * k) & 3) << 4;
  return scaled(scaled(half(b + 208), i8(b[192 + e / 16])), code - 32);
#elif MOE_FORMAT == MOE_IQ2_XXS
  const u8 *sub = b + 2 + e / 32 * 8;
  int i = e / 8 % 4;
  u32 signs = loadU16(sub + 4) | u32(loadU16(sub + 6)) << 16;
  int code = digit8(sub[i], e) | evenSign(signs >> (7 * i), e) << 2;
  return gridValue(half(b), int(signs >> 28) * 2 + 1, kValues[code]);
#elif MOE_FORMAT == MOE_IQ2_XS
  u32 word = loadU16(b + 2 + e / 8 * 2);
  int code = digit8(word & 511, e) | evenSign(word >> 9, e) << 2;
  return gridValue(half(b), oddNibble(b + 66, e / 16), kValues[code]);
#elif MOE_FORMAT == MOE_IQ2_S
  int i = e / 8, top = b[66 + i / 4] >> (i % 4 * 2) & 3;
  int code = digit8(b[2 + i] | top << 8, e) | (b[34 + i] >> (e % 8) & 1) << 2;
  return gridValue(half(b), oddNibble(b + 74, e / 16), kValues[code]);
#elif MOE_FORMAT == MOE_IQ3_XXS
  const u8 *sub = b + 66 + e / 32 * 4;
  u32 signs = loadU16(sub) | u32(loadU16(sub + 2)) << 16;
  int code = digit4(b[2 + e / 4], e) | evenSign(signs >> (e / 8 % 4 * 7), e)
                                           << 3;
  return gridValue(half(b), int(signs >> 28) * 2 + 1, kValues[code]);
#elif MOE_FORMAT == MOE_IQ3_S
  int i = e / 4, top = b[66 + i / 8] >> (i % 8) & 1;
  int code = digit4(b[2 + i] | top << 8, e) | (b[74 + e / 8] >> (e % 8) & 1)
                                                  << 3;
  return gridValue(half(b), oddNibble(b + 106, e / 32), kValues[code]);
#elif MOE_FORMAT == MOE_IQ1_S
  int i = e / 8, high = loadU16(b + 34 + e / 32 * 2);
  int digit = digit8(b[2 + i] | (high >> (i % 4 * 3) & 7) << 8, e);
  return gridValue(half(b), 2 * (high >> 12 & 7) + 1,
                   8 * digit + (high >> 15 ? -9 : -7));
#elif MOE_FORMAT == MOE_IQ1_M
  int i = e / 8, high = b[32 + i / 2] >> (i % 2 * 4) & 15;
  int digit = digit8(b[i] | (high & 7) << 8, e);
  const u8 *scales = b + 48;
  u32 d = loadU16(scales) >> 12 | (loadU16(scales + 2) & 0xf000) >> 8 |
          (loadU16(scales + 4) & 0xf000) >> 4 | (loadU16(scales + 6) & 0xf000);
  int s = e / 16;
  return gridValue(f16ToFloat(u16(d)),
                   2 * (loadU16(scales + s / 4 * 2) >> (s % 4 * 3) & 7) + 1,
                   8 * digit + (high >> 3 ? -9 : -7));
#endif
#endif
}

#if MOE_FORMAT == MOE_Q4_K
/// Says that eightAt() is defined.
#define MOE_EIGHT
/// Decodes the eight elements from column `col` on, a multiple of eight, which
/// share their scales. 24 bytes are loaded together: the row begins at a
/// multiple of eight bytes.
MOE_DEVICE void eightAt(const u8 *row, i64 col, float (&out)[8]) {
  const u8 *b = row + col / kBlockElements * kBlockBytes;
  int e = int(col % kBlockElements), s = e / 32;
  uint2 head = *(const uint2 *)b, scales = *(const uint2 *)(b + 8);
  uint2 codes = *(const uint2 *)(b + 16 + e / 64 * 32 + e % 32);
  // kScale() and kMin(), without loads.
  auto byte = [&](int i) {
    u32 word = i < 4 ? head.y : i < 8 ? scales.x : scales.y;
    return int(word >> (i % 4 * 8) & 255);
  };
  int scale =
      s < 4 ? byte(s) & 63 : (byte(s + 4) & 15) | (byte(s - 4) >> 6) << 4;
  int min = s < 4 ? byte(s + 4) & 63 : byte(s + 4) >> 4 | (byte(s) >> 6) << 4;
  float d = scaled(f16ToFloat(u16(head.x)), scale);
  float m = scaled(f16ToFloat(u16(head.x >> 16)), min);
  int shift = s % 2 * 4;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    out[i] = __fsub_rn(
        scaled(d, ((i < 4 ? codes.x : codes.y) >> (i % 4 * 8 + shift)) & 15),
        m);
}
#endif

} // namespace gguf

#endif // MOE_KERNELS_CUDA_GGUF_CUH
