//===- MmaSum.h - Summation of tensor cores ---------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_MMASUM_H
#define MOE_TEST_SOFTGPU_MMASUM_H

namespace softgpu {

/// A tile's operands with their exact values, zero outside the shape.
struct MmaTile {
  static constexpr int kRows = 16, kColumns = 8, kDepth = 16;
  float a[kRows][kDepth];
  float b[kDepth][kColumns];
  float c[kRows][kColumns]; ///< Initial sums, which the results replace.
};

/// Tensor cores add `segment` products and C at a time: all are aligned to the
/// largest exponent (the exponent of a product is the sum of its factors'),
/// truncated to `fraction` bits after the point, added exactly, and truncated
/// to F32. (Measured: MMA-Sim, arXiv 2511.10909.)
struct MmaModel {
  int segment, fraction;
};

/// Returns the model of a compute capability: Turing adds 4 products, Ampere
/// and Ada 8, all with 24 bits; Hopper and later 16, with 25 bits.
MmaModel mmaModel(int arch);

/// Adds like a tensor core. `minExponent` is that of the factors' format;
/// subnormals have it too.
void sumNative(MmaTile &tile, int depth, int minExponent, MmaModel model);

/// Adds with fused multiply-adds in F32, in ascending order of k.
void sumPlain(MmaTile &tile, int depth);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_MMASUM_H
