//===- MmaSum.h - How tensor cores add --------------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_MMASUM_H
#define MOE_TEST_SOFTGPU_MMASUM_H

namespace softgpu {

/// A tile's operands with their exact values, zero where the shape ends before.
struct MmaTile {
  static constexpr int kRows = 16, kColumns = 8, kDepth = 16;
  float a[kRows][kDepth];
  float b[kDepth][kColumns];
  float c[kRows][kColumns]; ///< The sum to begin with, then the result.
};

/// Tensor cores sum `segment` products and C at a time: all are aligned to the
/// largest exponent (of a product: the sum of its factors'), cut off to
/// `fraction` bits behind the point, added exactly, and cut off to F32.
/// (Measured: MMA-Sim, arXiv 2511.10909.)
struct MmaModel {
  int segment, fraction;
};

/// The model of a compute capability: Turing 4 products, Ampere and Ada 8, 24
/// bits; Hopper and later 16, 25 bits.
MmaModel mmaModel(int arch);

/// `minExponent` is that of the factors' format: subnormals have it too.
void sumNative(MmaTile &tile, int depth, int minExponent, MmaModel model);

/// Fused multiply-adds in F32, k upward.
void sumPlain(MmaTile &tile, int depth);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_MMASUM_H
