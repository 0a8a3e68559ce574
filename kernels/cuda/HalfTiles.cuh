//===- HalfTiles.cuh - Activations of HalfGemm.cu in tiles ------*- C++ -*-===//
//
// Where the blocks of a cluster have the same rows of activations and other
// weight rows, each copies a part of a stage's activations to all of them.
// Narrow.cu has stored the rows in tiles for that (MOE_TILED): 64 columns of all
// rows, then the next 64, a row's sixteen bytes in the order of a stage. So a
// part is one piece of memory.
//
// Rows up to a multiple of MOE_ROWS are zeros, as are columns up to 64.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_HALFTILES_CUH
#define MOE_KERNELS_CUDA_HALFTILES_CUH

static_assert(MOE_JOBS == MOE_TOKENS && MOE_PARTS == 1 && MOE_SLICES == 1 &&
              kStepCols == 64);

/// Bytes of activations in a stage.
constexpr u32 kTileBytes16 = MOE_ROWS * kStepCols * 2;

#ifdef MOE_HAS_WARPGROUPS
#include "kernels/cuda/Cluster.cuh"

static_assert(MOE_ROWS % (8 * MOE_CLUSTER) == 0);
constexpr u32 kPartBytes = kTileBytes16 / MOE_CLUSTER;

/// The part that this block copies next, and the stages' barriers.
struct ActSource {
  const u8 *from; ///< The block's part of the next step's tile.
  u32 to;         ///< Offset of this part in a stage.
  u32 barriers;   ///< Address of the first stage's barrier; the others follow.
  u32 filling = 0, reading = 0; ///< Indices of stages.
  u32 parity = 0; ///< The phase of the barrier of the stage that is read.
};

MOE_DEVICE ActSource actSource(const HalfGemmArgs &a, const Job &job, int, int,
                               int, u32 barriers) {
  if (threadIdx.x == 0)
#pragma unroll
    for (int i = 0; i < MOE_STAGES; ++i)
      initBarrier(barriers + 8 * i);
  arriveAtCluster();
  u32 part = blockIdx.x % MOE_CLUSTER * kPartBytes;
  return {(const u8 *)(a.narrowed + i64(job.first) * kStepCols) + part,
          u32(sizeof(WeightStage)) + part, barriers};
}

/// Begins the block's copy of a step to all stages at shared address `stage`.
/// All blocks of the cluster have read what was there: they have arrived since.
/// Then this warp has read the stage after that one.
MOE_DEVICE void fillActs(u32 stage, ActSource &s, const HalfGemmArgs &a, int,
                         int part, int) {
  if (part)
    return;
  waitForCluster();
  if (threadIdx.x == 0) {
    u32 barrier = s.barriers + 8 * s.filling;
    expectBytes(barrier, kTileBytes16);
    copyToCluster(stage + s.to, s.from, kPartBytes, barrier);
  }
  arriveAtCluster();
  s.from += a.plane * 2;
  s.filling = s.filling + 1 < MOE_STAGES ? s.filling + 1 : 0;
}

/// Waits for the activations of the next step.
MOE_DEVICE void awaitActs(ActSource &s) {
  awaitBytes(s.barriers + 8 * s.reading, s.parity);
  bool isLast = s.reading + 1 == MOE_STAGES;
  s.reading = isLast ? 0 : s.reading + 1;
  s.parity ^= isLast;
}
MOE_DEVICE void endActs(ActSource &) { waitForCluster(); }

#else // There is no cluster: a block copies all for itself.

struct ActSource {
  /// The first 16 bytes that the thread copies for the next step.
  const u8 *from;
};
MOE_DEVICE ActSource actSource(const HalfGemmArgs &a, const Job &job, int, int,
                               int thread, u32) {
  return {(const u8 *)(a.narrowed + i64(job.first) * kStepCols) + 16 * thread};
}
MOE_DEVICE void fillActs(u32 stage, ActSource &s, const HalfGemmArgs &a,
                         int thread, int part, int parts) {
  constexpr int kCopies = (kTileBytes16 / 16 + kThreads - 1) / kThreads;
#pragma unroll
  for (int i = 0; i < kCopies; ++i)
    if (i % parts == part && (i * kThreads + thread) * 16 < kTileBytes16)
      copyAsync(stage + u32(sizeof(WeightStage)) + (i * kThreads + thread) * 16,
                s.from + i * kThreads * 16);
  if (part == parts - 1)
    s.from += a.plane * 2;
}
#endif

#endif // MOE_KERNELS_CUDA_HALFTILES_CUH
