// Products of F32, F16 and BF16 weights, as files have them, with many rows:
// prefill. FloatGemm.cu multiplies fewer rows, and sm_75's.
//
// Activations were made 16-bit numbers before (Narrow.cu), once for all blocks:
// a block would convert them again for each of its weight rows, and would read
// twice the bytes from L2. There are MOE_PARTS of them for each float:
//
//   1   F16 or BF16 weights of many rows. An activation is rounded by at most
//       2^-11 or 2^-8 of itself; A8, with which all other formats are
//       multiplied, rounds by 2^-8 of the largest of 32.
//   2   Matrices of few rows (routers, gates: decisions and factors for the
//       whole token). Two mma instead of one, and an error of 2^-22 or 2^-16.
//   3   F32 weights, which are split as well, as they come from shared memory.
//       Three BF16 numbers have all bits of a float; six mma leave out less
//       than 2^-24 of a product. Lanes add what the six sum up, because tensor
//       cores truncate sums: 4096 products of one sign would lose 2^-16.
//
// A block has MOE_SLICES x MOE_WARP_COLS x MOE_WARP_ROWS warps, each with
// 16 MOE_TILES weight rows (half of them of `up`, with a gate) by 8 kTiles
// rows of activations. Columns pass through shared memory in steps of
// MOE_STEP_COLS, of which each slice takes every MOE_SLICES-th; MOE_STAGES
// steps of all slices are in flight or in use. At the end the slices' sums are
// added in their order: matrices of few rows have too few blocks otherwise.
//
// With 64 x 32 results a warp, 32 columns are 32 mma after 12 ldmatrix.x4. For
// eight warps these are 384 wavefronts of shared memory, in 2048 cycles of mma
// on GeForce (32 cycles of a quarter of a multiprocessor each), but in 512 on
// an A100. On GPUs of data centres a warp therefore has 64 x 64, which takes 16
// ldmatrix for 64 mma. Its 128 sums leave registers for the weights of the next
// sixteen columns (MOE_AHEAD 1): they come while this step's are multiplied,
// over the barrier between stages too. Otherwise all warps would ask for
// operands at the same time after each barrier, and tensor cores would wait.
//
// An H100 reaches 63 % of its peak at most in this way. There, warpgroups
// multiply (HalfWarpgroups.cuh), with 16 MOE_TILES x MOE_ROWS results a warp.
// In clusters of MOE_CLUSTER blocks they share activations (HalfTiles.cuh).

#include "kernels/cuda/Formats.cuh"
#include "kernels/cuda/Tail.cuh"

#if MOE_FORMAT != MOE_F32 && MOE_FORMAT != MOE_BF16
#define MOE_HALF_IS_F16
#define MOE_HALF "f16"
#else
#define MOE_HALF "bf16"
#endif
#include "kernels/cuda/HalfMma.cuh"
#include "kernels/cuda/Warpgroup.cuh"

#ifdef MOE_GATE
constexpr int kMatrices = 2;
#else
constexpr int kMatrices = 1;
#endif
constexpr int kTiles = MOE_ROWS / MOE_WARP_COLS / 8;
/// 16-row tiles of each matrix in a warp.
constexpr int kRowTiles = MOE_TILES / kMatrices;
constexpr int kBlockRows = 16 * kRowTiles * MOE_WARP_ROWS;
constexpr int kSliceThreads = 32 * MOE_WARP_ROWS * MOE_WARP_COLS;
constexpr int kThreads = kSliceThreads * MOE_SLICES;
constexpr int kStepCols = MOE_STEP_COLS;
static_assert(kTiles % 2 == 0, "ldmatrix takes two tiles at a time");

/// The place of sixteen bytes with number i of row r, counted in sixteen bytes,
/// where a row has `Words` of them. Eight rows' bytes with the same number are
/// in different banks.
template <int Words> MOE_DEVICE int placeOf(int r, int i) {
  return r * Words + (i ^ r / (8 / Words) % Words);
}

/// Stops the compiler from computing `x` again where it is used.
MOE_DEVICE void keep(u32 &x) { asm volatile("" : "+r"(x)); }

#ifdef MOE_PANELS
#include "kernels/cuda/HalfPanels.cuh"
#else
#include "kernels/cuda/HalfRows.cuh"
#endif

constexpr int kSteps = kStepCols / 16; ///< Number of mma in a step.
constexpr int kActWords = kStepCols / 8;
static_assert(kSteps % 2 == 0, "operands alternate between two places");

/// A stage of one slice: the weights and activations of MOE_STEP_COLS columns.
struct Stage {
  WeightStage weights;
  uint4 acts[MOE_PARTS][MOE_ROWS * kActWords];
};

/// The row of narrowed activations that is row `i` of the job.
MOE_DEVICE i64 narrowRow(const HalfGemmArgs &a, const Job &job, int i) {
#if MOE_JOBS == MOE_EXPERTS
  int slot = a.slots[job.first + i];
  return a.actPerToken ? slot / a.topK : slot;
#elif MOE_JOBS == MOE_HEADS
  return i64(job.first + i) * a.rowsPerToken + job.matrix;
#else
  return job.first + i;
#endif
}

#ifdef MOE_CLUSTER
#include "kernels/cuda/HalfTiles.cuh"
#else
#include "kernels/cuda/HalfActs.cuh"
#endif

using Sums = float[MOE_TILES][kTiles][4];

#ifdef MOE_HAS_WARPGROUPS
#include "kernels/cuda/HalfWarpgroups.cuh"
#else
/// Stages that are filled before the loop.
constexpr int kFilled = MOE_STAGES - 1;

/// Offsets of the lane's addresses for ldmatrix from the beginning of a stage,
/// for each sixteen columns of the first sixteen of the warp's rows.
struct ActLane {
  u32 at[kSteps];
};
MOE_DEVICE ActLane actLane(int act) {
  int lane = threadIdx.x % 32;
  ActLane o;
  // The order of the four matrices: words 2 k and 2 k + 1 of the first eight
  // rows, then of the next eight.
  int row = act + lane / 16 * 8 + lane % 8;
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    o.at[k] = u32(sizeof(WeightStage)) +
              placeOf<kActWords>(row, 2 * k + lane / 8 % 2) * 16;
  return o;
}

/// Sixteen columns of sixteen rows of activations as operands B: elements 0 and
/// 1 are the first eight rows, 2 and 3 the others.
struct Acts {
  u32 part[MOE_PARTS][4];
};
/// Loads rows 16 `two` .. 16 `two` + 15 of the warp's, columns 16 `k` .. 16 `k`
/// + 15 of the stage.
MOE_DEVICE void loadActs(Acts &b, u32 stage, const ActLane &lane, int two,
                         int k) {
#pragma unroll
  for (int p = 0; p < MOE_PARTS; ++p)
    loadMatrices(b.part[p], stage + lane.at[k] +
                                (p * MOE_ROWS + 16 * two) * kActWords * 16);
}

/// sums += w * b for all of the warp's tiles of weight rows and rows 16 `two`
/// .. 16 `two` + 15 of activations.
MOE_DEVICE void multiply(Sums &sums, const Weights (&w)[MOE_TILES],
                         const Acts &b, int two) {
  if constexpr (kWeightParts == 1) {
#pragma unroll
    for (int p = 0; p < MOE_PARTS; ++p)
#pragma unroll
      for (int i = 0; i < MOE_TILES; ++i) {
        mma(sums[i][2 * two], w[i].part[0], b.part[p][0], b.part[p][1]);
        mma(sums[i][2 * two + 1], w[i].part[0], b.part[p][2], b.part[p][3]);
      }
  } else {
    // Tensor cores truncate sums, lanes round them. So these columns' products
    // are summed from zero, the smallest first, and then added. Products of
    // parts whose numbers add up to more than the last part's are left out.
    float own[MOE_TILES][2][4] = {};
#pragma unroll
    for (int both = kWeightParts - 1; both >= 0; --both)
#pragma unroll
      for (int p = 0; p <= both; ++p)
#pragma unroll
        for (int i = 0; i < MOE_TILES * 2; ++i)
          mma(own[i / 2][i % 2], w[i / 2].part[both - p], b.part[p][i % 2 * 2],
              b.part[p][i % 2 * 2 + 1]);
#pragma unroll
    for (int i = 0; i < MOE_TILES * 8; ++i)
      sums[i / 8][2 * two + i / 4 % 2][i % 4] += own[i / 8][i / 4 % 2][i % 4];
  }
}

/// A lane's places in the operands' tiles, and the registers it has loaded.
struct Operands {
  WeightLane weightLane;
  ActLane actLane;
  int count; ///< Rows of activations that the job has for the warp.
  Held held;
  Weights w[MOE_AHEAD + 1][MOE_TILES];
  Acts b[2];
};

/// Loads all weights of columns 16 `k` .. 16 `k` + 15 of a stage, and the first
/// sixteen rows of activations.
MOE_DEVICE void loadFirst(Operands &o, u32 stage, int k) {
  loadActs(o.b[0], stage, o.actLane, 0, k);
#pragma unroll
  for (int i = 0; i < MOE_TILES; i += kLoadTiles)
    loadWeights(o.w[0] + i, o.held, stage, o.weightLane, i, k);
}

constexpr int kTwos = kTiles / 2;

/// Multiplies columns 16 `k` .. 16 `k` + 15 of the stage at `here`, and with
/// MOE_AHEAD loads the weights of the next ones, a few tiles at a time; those
/// that follow the last columns are at `there`. Calls between(0 .. kTwos - 1)
/// among the products. Only experts' blocks have fewer rows of activations than
/// they could have, which costs others no branch.
template <class Between>
MOE_DEVICE void multiply(Sums &sums, Operands &o, u32 here, u32 there, int k,
                         Between between) {
  constexpr int kEach =
      (MOE_TILES / kLoadTiles + kTwos - 1) / kTwos * kLoadTiles;
  const int next = (k + 1) % kSteps, which = MOE_AHEAD * (k % 2);
  const u32 from = next ? here : there;
  if (!MOE_AHEAD)
    loadFirst(o, here, k);
#pragma unroll
  for (int two = 0; two < kTwos; ++two) {
    between(two);
    const bool isNeeded = MOE_JOBS != MOE_EXPERTS || 16 * two < o.count;
    const int now = (MOE_AHEAD * k * kTwos + two) % 2;
    if (two + 1 < kTwos)
      loadActs(o.b[now ^ 1], here, o.actLane, two + 1, k);
    else if (MOE_AHEAD)
      loadActs(o.b[now ^ 1], from, o.actLane, 0, next);
    if (MOE_AHEAD)
#pragma unroll
      for (int i = two * kEach; i < two * kEach + kEach && i < MOE_TILES;
           i += kLoadTiles)
        loadWeights(o.w[which ^ MOE_AHEAD] + i, o.held, from, o.weightLane, i,
                    next);
    if (isNeeded)
      multiply(sums, o.w[which], o.b[now], two);
  }
}
#endif

#if MOE_SLICES > 1
/// Adds the sums of all slices, in their order, to those of the first one.
/// `memory` is that of the stages, which all warps have left.
MOE_DEVICE void addSlices(Sums &sums, float *memory, int slice, int thread) {
  constexpr int kSums = MOE_TILES * kTiles * 4;
  float *own = &sums[0][0][0];
  for (int other = 1; other < MOE_SLICES; ++other) {
    if (slice == other)
#pragma unroll
      for (int i = 0; i < kSums; ++i)
        memory[i * kSliceThreads + thread] = own[i];
    __syncthreads();
    if (slice == 0)
#pragma unroll
      for (int i = 0; i < kSums; ++i)
        own[i] += memory[i * kSliceThreads + thread];
    __syncthreads();
  }
}
#endif

/// Stores the results of a tile of eight rows of activations, from row `act` of
/// the job on; `warpRow` is the warp's first weight row.
MOE_DEVICE void finishTile(const HalfGemmArgs &a, const Job &job, i64 warpRow,
                           int act, const float (&sums)[MOE_TILES][4]) {
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    int i = act + 2 * (threadIdx.x % 4) + t;
    if (i >= job.count)
      continue;
    float *out = outRow(a, job, i);
#ifdef MOE_HALF_IS_F16
    float scale = a.scales[narrowRow(a, job, i)];
#else
    float scale = 1;
#endif
#pragma unroll
    for (int r = 0; r < 2 * kRowTiles; ++r) {
      i64 row = warpRow + weightRow(r / 2, r % 2);
      if (row >= a.w.rows)
        continue;
      float sum = sums[r / 2][r % 2 * 2 + t] * scale, up = 0;
#ifdef MOE_GATE
      up = sums[kRowTiles + r / 2][r % 2 * 2 + t] * scale;
#endif
      finish(a, job.matrix, out, row, sum, up);
    }
  }
}

/// A lane's sums of a tile of eight rows of activations.
using TileSums = float[MOE_TILES][4];
MOE_DEVICE void takeSums(TileSums &own, const Sums &sums, int tile) {
#pragma unroll
  for (int k = 0; k < MOE_TILES * 4; ++k)
    own[k / 4][k % 4] = sums[k / 4][tile][k % 4];
}

#if MOE_TAIL == 2
MOE_KERNEL(kThreads, 2, HalfGemmTailArgs) {
  Tile tile = findTile(a, blockIdx.x);
  int warp = threadIdx.x / 32, warpRow = warp % MOE_WARP_ROWS;
  int act = warp / MOE_WARP_ROWS * 8 * kTiles + blockIdx.y * 8;
  i64 row = i64(tile.column) * kBlockRows + 16 * kRowTiles * warpRow;
  if (act >= tile.job.count || row >= a.w.rows)
    return;
  TileSums sums = {};
  const PartSums parts = partsOf(a.tail, blockIdx.x);
#pragma unroll 2
  for (int part = 0; part < a.tail.parts; ++part)
    addSums<kThreads>(
        sums, sumsOf<TileSums, kTiles, kThreads>(
                  a.tail, parts, part, int(blockIdx.y), int(threadIdx.x)));
  finishTile(a, tile.job, row, act, sums);
}
#else
#ifdef MOE_TAIL
MOE_KERNEL(kThreads, MOE_BLOCKS, HalfGemmTailArgs) {
#elif defined(MOE_BRING)
MOE_KERNEL(kThreads, MOE_BLOCKS, HalfGemmPartArgs) {
  MOE_BRING_NEXT(a)
#else
MOE_KERNEL(kThreads, MOE_BLOCKS, HalfGemmArgs) {
#endif
  extern __shared__ __align__(1024) uint4 memory[];
  const Tile tile = findTile(a, blockIdx.x);
  const Job job = tile.job;
  if (job.count <= 0)
    return;
#if MOE_JOBS == MOE_HEADS
  if (blockIdx.x == 0)
    for (int i = 0; i < job.count; ++i)
      for (int c = threadIdx.x; c < a.tail; c += blockDim.x)
        outRow(a, job, i)[a.w.rows + c] =
            ((const float *)actRow(a, job, i))[a.w.cols + c];
#endif
  int slice = threadIdx.x / kSliceThreads, thread = threadIdx.x % kSliceThreads;
  int warp = thread / 32, lane = threadIdx.x % 32;
  int warpRow = warp % MOE_WARP_ROWS, act = warp / MOE_WARP_ROWS * 8 * kTiles;
  i64 blockRow = i64(tile.column) * kBlockRows;
  // Warps past the last row multiply nothing, but they copy. Warpgroups
  // multiply together.
#ifdef MOE_HAS_WARPGROUPS
  const int firstRow = warpRow / 4 * 4;
#else
  const int firstRow = warpRow;
#endif
  bool isInside =
      blockRow + firstRow * kRowTiles * 16 < a.w.rows && act < job.count;
  // A round is one step of each slice.
  constexpr u32 kStageBytes = sizeof(Stage) * MOE_SLICES;
  const Range rounds = rangeOf(a, blockIdx.x,
                               (int(a.w.cols) + kStepCols * MOE_SLICES - 1) /
                                   (kStepCols * MOE_SLICES),
                               1);
  WeightSource weights =
      weightSource(a, job, blockRow, rounds.begin, slice, thread);
  const u32 first = sharedAddress(memory) + slice * u32(sizeof(Stage));
  const u32 end = first + MOE_STAGES * kStageBytes;
  ActSource acts = actSource(a, job, rounds.begin, slice, thread, end);
  Scales scales; // Scales that fill() has loaded and store() stores.
  auto fill = [&](int round, u32 stage, int part, int parts) {
    if (round < rounds.end) {
      fillWeights(stage, weights, round, thread, part, parts);
      fillActs(stage, acts, a, thread, part, parts);
      if (part == 0)
        loadScales(scales, weights, round, thread);
    }
    if (part == parts - 1)
      commitCopies();
  };
  auto store = [&](int round, u32 stage) {
    if (round < rounds.end)
      storeScales(stage, scales, weights, round, thread);
  };
#pragma unroll
  for (int i = 0; i < kFilled; ++i) {
    fill(rounds.begin + i, first + i * kStageBytes, 0, 1);
    store(rounds.begin + i, first + i * kStageBytes);
  }
  Sums sums = {};
#ifdef MOE_HAS_WARPGROUPS
  auto await = [&](int round) {
    if (round < rounds.end)
      awaitActs(acts);
  };
  // An expert's last rows may be few. A branch between products would make each
  // wait for the one before, so that there are two loops. Gates take longer to
  // unpack than to multiply anyway.
#if MOE_JOBS == MOE_EXPERTS && MOE_ROWS >= 64 && !defined(MOE_GATE)
  if (job.count <= MOE_ROWS / 2)
    multiplyRounds<MOE_ROWS / 2>(sums, rounds, first, end, warpRow, isInside,
                                 fill, store, await);
  else
#endif
    multiplyRounds<MOE_ROWS>(sums, rounds, first, end, warpRow, isInside, fill,
                             store, await);
  endActs(acts);
#else
  Operands o{weightLane(warpRow), actLane(act), job.count - act};
#if MOE_AHEAD
  waitCopies<MOE_STAGES - 2>();
  __syncthreads();
  if (isInside)
    loadFirst(o, first, 0);
#endif
  u32 here = first, free = end - kStageBytes;
  for (int round = rounds.begin; round < rounds.end; ++round) {
    // After the last round, operands are loaded once more from its stage.
    const u32 there = round + 1 == rounds.end    ? here
                      : here + kStageBytes < end ? here + kStageBytes
                                                 : first;
#if MOE_AHEAD
    if (isInside)
#pragma unroll
      for (int k = 0; k < kSteps - 1; ++k)
        multiply(sums, o, here, there, k, [](int) {});
#endif
    u32 before = (free > first ? free : end) - kStageBytes;
    if (round != rounds.begin)
      store(round + MOE_STAGES - 2, before);
    waitCopies<MOE_STAGES - 2 - MOE_AHEAD>();
    // The stage that is needed next is complete, and no warp reads the free one
    // any more.
    __syncthreads();
    // Copies are spread over products, so that operands do not wait for all.
    constexpr int kFrom = MOE_AHEAD * (kSteps - 1);
    if (isInside)
#pragma unroll
      for (int k = kFrom; k < kSteps; ++k)
        multiply(sums, o, here, there, k, [&](int two) {
          fill(round + MOE_STAGES - 1, free, (k - kFrom) * kTwos + two,
               (kSteps - kFrom) * kTwos);
        });
    else
      fill(round + MOE_STAGES - 1, free, 0, 1);
    free = here;
    here = there;
  }
#endif
#if MOE_SLICES > 1
  __syncthreads();
  addSlices(sums, (float *)memory, slice, thread);
  if (slice)
    return;
#endif
#ifdef MOE_TAIL
  static_assert(MOE_SLICES == 1, "sums are those of all warps");
#if MOE_TAIL == 3
  using Others =
      OtherParts<TileSums, kTiles, kThreads, int(MOE_STAGES * kStageBytes)>;
#endif
  const int block = int(blockIdx.x);
  PartSums parts = {0, 0, 1, 0};
  if (isPart(a.tail, block)) {
    parts = partsOf(a.tail, block);
    auto store = [&] {
      if (!isInside)
        return;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        TileSums own;
        takeSums(own, sums, i);
        storeSums<kThreads>(sumsOf<TileSums, kTiles, kThreads>(
                                a.tail, parts, parts.own, i, int(threadIdx.x)),
                            own);
      }
    };
#if MOE_TAIL == 3
    if (!takesTile(a.tail, block, parts, Others::wordOf(memory), store))
      return;
#else
    store();
    return;
#endif
  }
#endif
  if (!isInside)
    return;
#if MOE_TAIL == 3
  Others others(a.tail, parts, memory, int(threadIdx.x));
#endif
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    TileSums own;
    takeSums(own, sums, i);
#if MOE_TAIL == 3
    if (parts.count > 1)
      others.addTo(own);
#endif
    finishTile(a, job, blockRow + 16 * kRowTiles * warpRow, act + 8 * i, own);
  }
}
#endif
