//===- Gguf.cuh - Elements of a row as files have it ------------*- C++ -*-===//
//
// valueAt() is dequantize() of kernels/quant/<format>.h for one element, with
// the same roundings. Bytes, because a block begins at any address. For what is
// read once a step, and for weights that nobody repacked.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_GGUF_CUH
#define MOE_KERNELS_CUDA_GGUF_CUH

#include "kernels/cuda/Formats.cuh"

namespace gguf {

MOE_DEVICE float half(const u8 *p) { return f16ToFloat(loadU16(p)); }
/// d * code, d * code + m, d * scale * code - dmin * min.
MOE_DEVICE float scaled(float d, int code) { return __fmul_rn(d, float(code)); }
MOE_DEVICE float scaled(float d, int code, float m) {
  return __fadd_rn(scaled(d, code), m);
}
MOE_DEVICE float scaled(float d, int scale, int code, float dmin, int min) {
  return __fsub_rn(scaled(scaled(d, scale), code), scaled(dmin, min));
}

/// A nibble pair's code: byte i of 16 has elements i and i + 16.
MOE_DEVICE int nibble16(const u8 *codes, int e) {
  return codes[e % 16] >> (e / 16 * 4) & 15;
}
/// Bit 4 of element e in Q5_0 and Q5_1.
MOE_DEVICE int fifthBit(const u8 *high, int e) {
  return (high[e / 8] >> (e % 8) & 1) << 4;
}
/// kernels/quant/KScales.h
MOE_DEVICE int kScale(const u8 *p, int s) {
  return s < 4 ? p[s] & 63 : (p[s + 4] & 15) | (p[s - 4] >> 6) << 4;
}
MOE_DEVICE int kMin(const u8 *p, int s) {
  return s < 4 ? p[s + 4] & 63 : p[s + 4] >> 4 | (p[s] >> 6) << 4;
}

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
  return scaled(half(b), kIq4Values[nibble16(b + 2, e)]);
#elif MOE_FORMAT == MOE_MXFP4
  return scaled(exponentToFloat(b[0]), kFp4Values[nibble16(b + 1, e)]);
#elif MOE_FORMAT == MOE_IQ4_XS
  int s = e / 32;
  int scale =
      (b[4 + s / 2] >> (s % 2 * 4) & 15) | (loadU16(b + 2) >> (2 * s) & 3) << 4;
  return scaled(scaled(half(b), scale - 32),
                kIq4Values[nibble16(b + 8 + 16 * s, e % 32)]);
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
#endif
#endif
}

} // namespace gguf

#endif // MOE_KERNELS_CUDA_GGUF_CUH
