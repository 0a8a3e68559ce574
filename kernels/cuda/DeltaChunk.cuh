//===- DeltaChunk.cuh - The gated delta rule in chunks of 16 rows ---------===//
//
// Let S be the state before a chunk, k_i and q_i unit keys and queries, b_i
// strengths and g_i decays, with rows i = 0 .. 15, and let D_ij be the product
// of g_(j+1), .., g_i, so that D_i,-1 = g_0 * .. * g_i:
//   u_i = b_i (v_i - D_i,-1 S^T k_i - sum over j < i of D_ij (k_i k_j) u_j)
//   out_i = D_i,-1 S^T q_i + sum over j <= i of D_ij (q_i k_j) u_j
//   S' = D_15,-1 S + sum over j of k_j (D_15,j u_j)^T
// The first line is (I + A) u = b (v - ..) with the strictly lower triangular
// A_ij = b_i D_ij (k_i k_j). DeltaPrepare.cu computes the inverse of I + A once
// per head and chunk, for all chunks at once; its entries are at most one
// because strengths, decays and the lengths of keys are. What remains are
// products with S, chunk after chunk: DeltaApply.cu. Ratios of decays are
// products of at most sixteen decays, so nothing is divided, and what
// underflows becomes zero.
//
// The arithmetic is float: tensor cores of GeForce multiply TF32 only as fast
// as its lanes multiply floats, and would need three products instead of one.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_DELTACHUNK_CUH
#define MOE_KERNELS_CUDA_DELTACHUNK_CUH

#include "kernels/cuda/Device.cuh"

constexpr int kChunk = kDeltaRows;
/// Elements of a key, padded with zeros to a multiple of sixteen.
constexpr int kAll = (MOE_KEY + 15) / 16 * 16;

/// Data of a chunk and key head: unit keys, and unit queries divided by the
/// root of MOE_KEY; zeros after a sequence's last row.
struct alignas(16) ChunkKeys {
  float keys[kAll][kChunk], queries[kAll][kChunk];
};
/// Data of a chunk and head.
struct alignas(16) ChunkMix {
  float solved[kChunk][kChunk]; ///< [i][j]: inverse of I + A, times b_j.
  float seen[kChunk][kChunk];   ///< [i][j]: D_ij (q_i k_j) for j <= i.
  /// D_i,-1: decay from the state before the chunk to row i
  float kept[kChunk];
  float left[kChunk]; ///< D_15,j: decay from row j to the chunk's last row
};
static_assert(sizeof(ChunkKeys) == 2 * kChunk * kAll * sizeof(float) &&
              sizeof(ChunkMix) == kDeltaMixFloats * sizeof(float));

/// Number of chunks of a sequence. Chunks are numbered across all sequences of
/// a step.
MOE_DEVICE int chunksOf(const Sequence &s) {
  return (s.count + kChunk - 1) / kChunk;
}

#endif // MOE_KERNELS_CUDA_DELTACHUNK_CUH
