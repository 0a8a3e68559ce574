//===- Scalar.h - The portable trait: one lane, in double -------*- C++ -*-===//
//
// The ops' kernels as the reference runs them: every value is computed in
// double and rounded once when stored; sums are double.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_REF_SCALAR_H
#define MOE_KERNELS_REF_SCALAR_H

#include "kernels/cpu/Simd.h"
#include "kernels/quant/Dequant.h"
#include "kernels/quant/Half.h"

#include <cmath>

namespace moek::ref {

struct Dequant {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  static void name(const uint8_t *row, int64_t cols, float *out) {             \
    (void)dequantizeRow(Format::name, row, cols, out); /* It has kernels. */   \
  }
#include "kernels/quant/Formats.def"
};

struct Simd {
  using Vec = double;
  using Num = double;
  using Dequant = ref::Dequant;
  static constexpr int kWidth = 1;
  static constexpr int kDotRows = 1, kSumRows = 1, kSumVecs = 1;
  static constexpr int kDotHeads = 4, kDotKeys = 1;

  static Vec zero() { return 0; }
  static Vec set(double x) { return x; }
  static Vec load(const float *p) { return *p; }
  static Vec loadPart(const float *p, int) { return *p; }
  static void store(float *p, Vec v) { *p = float(v); }
  static void storePart(float *p, Vec v, int) { *p = float(v); }

  static uint16_t bits(const uint8_t *p) {
    uint16_t value;
    std::memcpy(&value, p, 2);
    return value;
  }
  static Vec loadF16(const uint8_t *p) { return f16ToFloat(bits(p)); }
  static Vec loadBf16(const uint8_t *p) { return bf16ToFloat(bits(p)); }
  static void storeF16(uint8_t *p, Vec v) {
    uint16_t value = floatToF16(float(v));
    std::memcpy(p, &value, 2);
  }
  static void storeBf16(uint8_t *p, Vec v) {
    uint16_t value = floatToBf16(float(v));
    std::memcpy(p, &value, 2);
  }

  static Vec add(Vec a, Vec b) { return a + b; }
  static Vec sub(Vec a, Vec b) { return a - b; }
  static Vec mul(Vec a, Vec b) { return a * b; }
  static Vec div(Vec a, Vec b) { return a / b; }
  /// Returns what the vector instructions return: the second operand if either
  /// is NaN.
  static Vec max(Vec a, Vec b) { return a > b ? a : b; }
  static Vec min(Vec a, Vec b) { return a < b ? a : b; }
  static Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
  static Vec exp(Vec x) { return std::exp(x); }
  static Vec exp2(Vec x) { return std::exp2(x); }
  static double reduceAdd(Vec v) { return v; }
  static double reduceMax(Vec v) { return v; }
  static void reduceAdd4(const Vec (&v)[4], double scale, float *out) {
    for (int i = 0; i < 4; ++i)
      out[i] = float(v[i] * scale);
  }
  template <int R>
  static void reduceAdd4(const Vec (&v)[R][4], double scale, float *out,
                         int64_t stride) {
    for (int r = 0; r < R; ++r)
      reduceAdd4(v[r], scale, out + r * stride);
  }

  static float maxAbs32(const float *x, bool &finite) {
    float m = 0;
    finite = true;
    for (int i = 0; i < 32; ++i) {
      finite &= std::isfinite(x[i]);
      m = std::fmax(m, std::fabs(x[i]));
    }
    return m;
  }
  static void quantize32(const float *x, float inverse, int8_t *q,
                         int16_t *sums) {
    sums[0] = sums[1] = 0;
    for (int i = 0; i < 32; ++i) {
      q[i] = int8_t(std::nearbyint(x[i] * inverse));
      sums[i / 16] = int16_t(sums[i / 16] + q[i]);
    }
  }
};

} // namespace moek::ref

#endif // MOE_KERNELS_REF_SCALAR_H
