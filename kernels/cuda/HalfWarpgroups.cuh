//===- HalfWarpgroups.cuh - HalfGemm.cu's products on sm_90a ----*- C++ -*-===//
//
// Weights are A, from registers: a warp's tiles of sixteen rows are its part of
// as many products of its warpgroup, so that what HalfPanels.cuh and
// HalfRows.cuh load for mma.m16n8k16 serves as it is. Activations are B: their
// stages have the order of a descriptor (placeOf()). While a warpgroup
// multiplies two tiles, it loads, or unpacks, the next two; the other one of
// the multiprocessor, or of its other block, does the same in turn.
//
// By the clock, 512 rows of 8192 x 7168, tensor cores multiply for 57 % of the
// time with Q4_K, and L2, of which a block of 256 x 128 needs 25 bytes a cycle
// at the peak, delivers 85 % of what it can; F16 needs 48 bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_HALFWARPGROUPS_CUH
#define MOE_KERNELS_CUDA_HALFWARPGROUPS_CUH

static_assert(MOE_PARTS == 1 && kWeightParts == 1 && MOE_SLICES == 1 &&
              MOE_WARP_COLS == 1 && MOE_WARP_ROWS % 4 == 0);
static_assert(sizeof(WeightStage) % 1024 == 0 && sizeof(Stage) % 1024 == 0,
              "tiles of eight rows of activations are aligned to their bytes");

/// Tiles of a warp that a warpgroup multiplies together. While it does, the
/// next ones are loaded to the other half of their registers.
constexpr int kGroupTiles = 2;
static_assert(MOE_TILES % kGroupTiles == 0);

/// Multiplies columns 16 `k` .. 16 `k` + 15 of `Acts` rows of activations of
/// the stage at `here` in the background. The last tiles may still be in flight
/// then, and nothing else.
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

// The last products of a round are in flight when the next one begins: of the
// stages, one is theirs and one this round's.
constexpr int kFilled = MOE_STAGES - 2;

/// Multiplies `rounds` by `Acts` rows of activations. Stages are at shared
/// addresses `first` .. `end` - 1, of which kFilled are filled or being filled.
/// fill(round, stage, part, parts) begins copies; store(round, stage) stores
/// the scales that the last fill() has loaded.
template <int Acts, class Fill, class Store>
MOE_DEVICE void multiplyRounds(Sums &sums, Range rounds, u32 first, u32 end,
                               int warpRow, bool isInside, Fill fill,
                               Store store) {
  const WeightLane lane = weightLane(warpRow);
  Weights w[2][kGroupTiles];
  Held held;
  auto next = [&](u32 stage) {
    return stage + u32(sizeof(Stage)) < end ? stage + u32(sizeof(Stage))
                                            : first;
  };
  auto waitForStage = [] {
    waitCopies<kFilled - 1>();
    fenceShared();
    __syncthreads();
  };
  u32 here = first, free = first + kFilled * u32(sizeof(Stage)), before = free;
  waitForStage();
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
    waitForStage();
  }
  waitProducts<0>();
#pragma unroll
  for (int i = 0; i < MOE_TILES; ++i)
    keepSums(sums[i]);
}

#endif // MOE_KERNELS_CUDA_HALFWARPGROUPS_CUH
