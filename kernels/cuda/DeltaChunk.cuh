//===- DeltaChunk.cuh - The gated delta rule, sixteen rows at a time ------===//
//
// With S before a chunk, unit keys k_i and queries q_i, strengths b_i, decays
// g_i, all rows from 0, and D_ij = g_j+1 * .. * g_i:
//   u_i = b_i (v_i - D_i,-1 S^T k_i - sum over j < i of D_ij (k_i k_j) u_j)
//   out_i = D_i,-1 S^T q_i + sum over j <= i of D_ij (q_i k_j) u_j
//   S' = D_15,-1 S + sum over j of k_j (D_15,j u_j)^T
// The first is (I + A) u = b (v - ..), A strictly lower triangular: its inverse
// is made once per head and chunk by DeltaPrepare.cu, for all chunks at once,
// entries are at most one as strengths and keys are. What is left is products
// with S, chunk after chunk: DeltaApply.cu. Ratios of decays are products of at
// most sixteen of them, so nothing is divided, and what underflows is zero.
//
// In float: tensor cores of GeForce multiply TF32 as fast as its lanes multiply
// floats, and would need three products for one.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_DELTACHUNK_CUH
#define MOE_KERNELS_CUDA_DELTACHUNK_CUH

#include "kernels/cuda/Device.cuh"

constexpr int kChunk = kDeltaRows;
/// Keys of a head: zeros behind MOE_KEY.
constexpr int kAll = (MOE_KEY + 15) / 16 * 16;

/// Of a chunk and a key head; unit keys and queries, these over the root of
/// MOE_KEY, zeros behind a sequence's rows.
struct alignas(16) ChunkKeys {
  float keys[kAll][kChunk], queries[kAll][kChunk];
};
/// Of a chunk and a head.
struct alignas(16) ChunkMix {
  float solved[kChunk][kChunk]; ///< Inverse of I + A, times b_j.
  float seen[kChunk][kChunk];   ///< D_ij (q_i k_j), j <= i.
  float kept[kChunk];           ///< D_i,-1
  float left[kChunk];           ///< D_15,j
};
static_assert(sizeof(ChunkKeys) == 2 * kChunk * kAll * sizeof(float) &&
              sizeof(ChunkMix) == kDeltaMixFloats * sizeof(float));

/// Chunks are numbered through all sequences of a step.
MOE_DEVICE int chunksOf(const Sequence &s) {
  return (s.count + kChunk - 1) / kChunk;
}

#endif // MOE_KERNELS_CUDA_DELTACHUNK_CUH
