//===- Scratch.h - Private memory a kernel needs per worker -----*- C++ -*-===//
//
// One formula per op that needs any, used by the compiler to size a plan, by
// the plan verifier, and by the kernels to lay their scratch out.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_SCRATCH_H
#define MOE_KERNELS_SCRATCH_H

#include <cstdint>

namespace moek {

/// Token rows that a gemm driver hands to a GemmFn at a time.
inline constexpr int64_t kTokenTile = 64;
/// Weight rows per call: 64 rows of 2048 4-bit columns are 72 KiB, inside L2.
inline constexpr int64_t kRowTile = 64;
/// Query rows and cached positions per block of the attention kernels.
inline constexpr int64_t kQueryTile = 16;
inline constexpr int64_t kKeyTile = 64;

/// Linear, ExpertsLinear: one output tile and the tile's row pointers.
constexpr int64_t gemmScratchBytes() {
  return kTokenTile * kRowTile * 4 + kTokenTile * 8;
}
/// GateUp, ExpertsGateUp: two output tiles.
constexpr int64_t gateUpScratchBytes() {
  return 2 * kTokenTile * kRowTile * 4 + kTokenTile * 8;
}
/// AbsorbQuery, ExpandValue: one dequantised weight row (at most
/// max(nope, latent) columns) plus one output head.
constexpr int64_t headLinearScratchBytes(int64_t nope, int64_t latent) {
  return (2 * (nope + latent) + 32) * 4;
}
/// LatentAttention: per query row and head a block of scores, running maximum
/// and sum, plus one block of cache rows as floats.
constexpr int64_t latentAttentionScratchBytes(int64_t heads, int64_t latent,
                                              int64_t rope) {
  return (kKeyTile * (latent + rope) + heads * (kKeyTile + latent + 2) + 64) *
         4;
}
/// MlaAttention: one head's W_UK and W_UV as floats, a block of cache rows,
/// its keys and values, scores, running maximum, sum and output of kQueryTile
/// queries.
constexpr int64_t mlaAttentionScratchBytes(int64_t nope, int64_t rope,
                                           int64_t latent, int64_t value) {
  return ((nope + value) * latent + kKeyTile * (latent + rope) +
          kKeyTile * (nope + rope + value) +
          kQueryTile * (kKeyTile + value + 2) + 64) *
         4;
}

} // namespace moek

#endif // MOE_KERNELS_SCRATCH_H
