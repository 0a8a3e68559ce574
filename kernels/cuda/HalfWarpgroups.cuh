//===- HalfWarpgroups.cuh - HalfGemm.cu's products on sm_90a ----*- C++ -*-===//
//
// Weights are operand A, from registers: a wgmma has 64 rows, sixteen of each
// of four warps, in the fragments of mma.m16n8k16, so that what HalfPanels.cuh
// and HalfRows.cuh load serves as it is. Activations are operand B, from shared
// memory, where their stages have the order that a descriptor needs
// (placeOf()). While the tensor cores multiply two tiles of a warpgroup's
// warps, it loads or unpacks the next two. The other warpgroup of the
// multiprocessor, of the same block or another one, does the same, so that one
// loads while the other multiplies.
//
// In the simulation, with 512 rows and 8192 x 7168 weights of Q4_K, tensor
// cores multiply for 57 % of the time, and L2 delivers 85 % of what it can: a
// block of 256 x 128 needs 25 bytes a cycle from it at the tensor cores' peak.
// With F16 it would need 48, so that blocks share activations (HalfTiles.cuh).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_HALFWARPGROUPS_CUH
#define MOE_KERNELS_CUDA_HALFWARPGROUPS_CUH

static_assert(MOE_PARTS == 1 && kWeightParts == 1 && MOE_SLICES == 1 &&
              MOE_WARP_COLS == 1 && MOE_WARP_ROWS % 4 == 0);
static_assert(sizeof(WeightStage) % 1024 == 0 && sizeof(Stage) % 1024 == 0,
              "tiles of eight rows of activations are aligned to their bytes");

/// Tiles of a warp that are committed together. While they are multiplied, the
/// next ones are loaded to the other half of the registers for weights.
constexpr int kGroupTiles = MOE_TILES == 1 ? 1 : 2;
static_assert(MOE_TILES % kGroupTiles == 0);

/// Begins the products of all tiles with columns 16 `k` .. 16 `k` + 15 of
/// `Acts` rows of activations of the stage at `here`. On return all are
/// complete but those of the last kGroupTiles tiles.
template <int Acts>
MOE_DEVICE void multiplyStep(Sums &sums, Weights (&w)[2][kGroupTiles],
                             Held &held, u32 here, const WeightLane &lane,
                             int k) {
  Tile64 acts =
      columnsOf<2 * kStepCols>(here + u32(sizeof(WeightStage)) + 32 * k);
#pragma unroll
  for (int first = 0; first < MOE_TILES; first += kGroupTiles) {
    Weights(&own)[kGroupTiles] = w[(k * MOE_TILES + first) / kGroupTiles % 2];
#pragma unroll
    for (int i = 0; i < kGroupTiles; i += kLoadTiles)
      loadWeights(own + i, held, here, lane, first + i, k);
    fenceProducts();
#pragma unroll
    for (int i = 0; i < kGroupTiles; ++i)
      multiplyGroup(reinterpret_cast<float(&)[Acts / 8][4]>(sums[first + i]),
                    own[i].part[0], acts);
    commitProducts();
    waitProducts<1>();
  }
}

// The last products of a round still run when the next one begins, so that two
// stages are in use: the one they read and this round's.
constexpr int kFilled = MOE_STAGES - 2;

/// Multiplies `rounds` by `Acts` rows of activations. Stages are at shared
/// addresses `first` .. `end` - 1, of which kFilled are filled or being filled.
/// fill(round, stage, part, parts) begins copies; store(round, stage) stores
/// the scales that the last fill() has loaded; await(round) waits for
/// activations that did not come by cp.async.
template <int Acts, class Fill, class Store, class Await>
MOE_DEVICE void multiplyRounds(Sums &sums, Range rounds, u32 first, u32 end,
                               int warpRow, bool isInside, Fill fill,
                               Store store, Await await) {
  const WeightLane lane = weightLane(warpRow);
  Weights w[2][kGroupTiles];
  Held held;
  auto next = [&](u32 stage) {
    return stage + u32(sizeof(Stage)) < end ? stage + u32(sizeof(Stage))
                                            : first;
  };
  auto waitForStage = [&](int round) {
    waitCopies<kFilled - 1>();
    await(round);
    fenceShared();
    __syncthreads();
  };
  u32 here = first, free = first + kFilled * u32(sizeof(Stage)), before = free;
  waitForStage(rounds.begin);
  for (int round = rounds.begin; round < rounds.end; ++round) {
    if (round != rounds.begin)
      store(round + kFilled - 1, before);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (isInside)
        multiplyStep<Acts>(sums, w, held, here, lane, k);
      fill(round + kFilled, free, k, kSteps);
    }
    before = free;
    free = next(free);
    here = next(here);
    waitForStage(round + 1);
  }
  waitProducts<0>();
#pragma unroll
  for (int i = 0; i < MOE_TILES; ++i)
    keepSums(sums[i]);
}

#endif // MOE_KERNELS_CUDA_HALFWARPGROUPS_CUH
