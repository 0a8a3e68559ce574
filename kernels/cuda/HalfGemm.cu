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
//   2   F32 weights, which are split as well, as they come from shared memory:
//       three mma, without low times low, and an error of 3 * 2^-16 (a sum of
//       2048 random terms: 2^-20).
//
// A block has MOE_SLICES x MOE_WARP_COLS x MOE_WARP_ROWS warps, each with
// 16 MOE_TILES weight rows (half of them of `up`, with a gate) by 8 kTiles
// rows of activations. Columns pass through shared memory in steps of 32, of
// which each slice takes every MOE_SLICES-th; MOE_STAGES steps of all slices
// are in flight or in use. At the end the slices' sums are added in their
// order: matrices of few rows have too few blocks otherwise.
//
// With 64 x 32 a warp, a step is 32 mma after 12 ldmatrix: 96 wavefronts for
// eight warps' 1024 cycles on GeForce, whose mma take 32 cycles of a quarter of
// a multiprocessor, and 256 on an A100. On an H100, where they are 128, a warp
// has 64 x 64: 16 ldmatrix for 64 mma, and a block of 256 x 128 reads 24 bytes
// from L2 for every 1024 multiply-adds.

#include "kernels/cuda/Formats.cuh"
#include "kernels/cuda/Groups.cuh"

#if MOE_FORMAT == MOE_F16
#define MOE_HALF_IS_F16
#define MOE_HALF "f16"
#else
#define MOE_HALF "bf16"
#endif
#include "kernels/cuda/HalfMma.cuh"

#ifdef MOE_GATE
constexpr int kMatrices = 2;
#else
constexpr int kMatrices = 1;
#endif
constexpr int kTiles = MOE_ROWS / MOE_WARP_COLS / 8;
constexpr int kRowTiles = MOE_TILES / kMatrices; ///< Of a matrix and warp.
constexpr int kBlockRows = 16 * kRowTiles * MOE_WARP_ROWS;
constexpr int kSliceThreads = 32 * MOE_WARP_ROWS * MOE_WARP_COLS;
constexpr int kThreads = kSliceThreads * MOE_SLICES;
static_assert(kTiles % 2 == 0, "ldmatrix takes two tiles at a time");

constexpr int kStepCols = 32;
constexpr bool kIsF32 = MOE_FORMAT == MOE_F32;
/// Words of sixteen bytes of a row and step: weights, activations.
constexpr int kWeightWords = kIsF32 ? 8 : 4, kActWords = 4;

/// Sixteen bytes with number i of row r of `Words` such. Eight rows' words with
/// the same number are in different banks.
template <int Words> MOE_DEVICE int placeOf(int r, int i) {
  return r * Words + (i ^ r / (8 / Words) % Words);
}

/// One step of one slice.
struct Stage {
  uint4 weights[kMatrices][kBlockRows * kWeightWords];
  uint4 acts[MOE_PARTS][MOE_ROWS * kActWords];
};

// A thread copies the same word of rows that are so many apart.
constexpr int kWeightApart = kSliceThreads / kWeightWords;
constexpr int kActApart = kSliceThreads / kActWords;
constexpr int kWeightCopies = (kBlockRows + kWeightApart - 1) / kWeightApart;
constexpr int kActCopies = (MOE_ROWS + kActApart - 1) / kActApart;
static_assert(kWeightApart % 8 == 0 && kActApart % 8 == 0,
              "rows have their words in the same order");

/// What this thread copies next: addresses in its rows, and the number of
/// columns from there to the end of a row of weights, or of activations with
/// their zeros. Addresses that only advance cost the loop four instructions.
struct Sources {
  const u8 *weight[kMatrices][kWeightCopies], *act[kActCopies];
  int weightCols, actCols;
  u32 weightTo, actTo; ///< From the beginning of a stage.
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

/// Rows past a matrix's last read the last one, rows past a job's last read
/// the first one; their results are not stored.
MOE_DEVICE Sources sourcesOf(const HalfGemmArgs &a, const Job &job,
                             i64 blockRow, int slice, int thread) {
  Sources s;
  int row = thread / kWeightWords, word = thread % kWeightWords;
  int column = slice * kStepCols + word * kStepCols / kWeightWords;
#pragma unroll
  for (int m = 0; m < kMatrices; ++m) {
    const Matrix &w = m ? a.up : a.w;
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      i64 at = blockRow + row + i * kWeightApart;
      at = at < w.rows ? at : w.rows - 1;
      s.weight[m][i] = w.data + job.matrix * w.outerStride + at * w.rowStride +
                       column * (kIsF32 ? 4 : 2);
    }
  }
  s.weightCols = int(a.w.cols) - column;
  s.weightTo = placeOf<kWeightWords>(row, word) * 16;
  row = thread / kActWords;
  word = thread % kActWords;
  column = slice * kStepCols + word * kStepCols / kActWords;
#pragma unroll
  for (int i = 0; i < kActCopies; ++i) {
    int t = row + i * kActApart;
    s.act[i] = (const u8 *)(a.narrowed +
                            narrowRow(a, job, t < job.count ? t : 0) * a.pitch +
                            column);
  }
  s.actCols = int(a.pitch) - column;
  s.actTo = u32(sizeof(Stage::weights)) + placeOf<kActWords>(row, word) * 16;
  return s;
}

/// Begins the copies of the slice's next step to the stage at shared address
/// `stage`; past a row's last column are zeros.
MOE_DEVICE void fillStage(u32 stage, Sources &s, const HalfGemmArgs &a,
                          int thread) {
  constexpr int kColumns = kStepCols * MOE_SLICES;
#pragma unroll
  for (int m = 0; m < kMatrices; ++m)
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i)
      if (kBlockRows % kWeightApart == 0 ||
          thread / kWeightWords + i * kWeightApart < kBlockRows) {
        copyAsync(stage + s.weightTo +
                      (m * kBlockRows + i * kWeightApart) * kWeightWords * 16,
                  s.weight[m][i], s.weightCols > 0 ? 16 : 0);
        s.weight[m][i] += kColumns * (kIsF32 ? 4 : 2);
      }
#pragma unroll
  for (int i = 0; i < kActCopies; ++i)
    if (MOE_ROWS % kActApart == 0 ||
        thread / kActWords + i * kActApart < MOE_ROWS) {
#pragma unroll
      for (int p = 0; p < MOE_PARTS; ++p)
        copyAsync(stage + s.actTo +
                      (p * MOE_ROWS + i * kActApart) * kActWords * 16,
                  s.act[i] + p * a.plane * 2, s.actCols > 0 ? 16 : 0);
      s.act[i] += kColumns * 2;
    }
  s.weightCols -= kColumns;
  s.actCols -= kColumns;
}

using Sums = float[MOE_TILES][kTiles][4];

/// The operands of sixteen weight rows and columns: those of F32, high and low.
struct Weights {
  u32 part[kIsF32 ? 2 : 1][4];
};

/// Words of weights that a lane's address moves on by for the next eight
/// columns (F32) or sixteen.
constexpr int kLoads = kIsF32 ? 4 : 2;

/// The lane's addresses for ldmatrix, from the beginning of a stage. Sixteen
/// rows further the order of words is the same, so that all others are
/// constants more.
struct Operands {
  u32 weight[kLoads], act[2];
};
MOE_DEVICE Operands operandsOf(int warpRow, int act) {
  int lane = threadIdx.x % 32;
  Operands o;
  // ldmatrix order: rows 0 .. 7 and 8 .. 15 of a word, then of the next one.
  int row = warpRow * kRowTiles * 16 + lane % 16;
#pragma unroll
  for (int i = 0; i < kLoads; ++i)
    o.weight[i] = placeOf<kWeightWords>(row, 2 * i + lane / 16) * 16;
  // Words 2 k and 2 k + 1 of eight rows, then of the next eight.
  row = act + lane / 16 * 8 + lane % 8;
#pragma unroll
  for (int k = 0; k < 2; ++k)
    o.act[k] = u32(sizeof(Stage::weights)) +
               placeOf<kActWords>(row, 2 * k + lane / 8 % 2) * 16;
  return o;
}

/// Loads the weights of sixteen rows, at `rows`, and columns from 16 `k` on.
MOE_DEVICE void loadWeights(Weights &w, u32 rows, const Operands &o, int k) {
#if MOE_FORMAT == MOE_F32
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    u32 x[4];
    loadMatrices(x, rows + o.weight[2 * k + half]);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Split two =
          split(__int_as_float(int(x[i])), __int_as_float(int(x[i + 2])));
      w.part[0][2 * half + i] = two.high;
      w.part[1][2 * half + i] = two.low;
    }
  }
#else
  loadMatrices(w.part[0], rows + o.weight[k]);
#endif
}

/// Adds a step's products to the sums, of `count` rows of activations; `stage`
/// is a shared address. Only experts' blocks have fewer rows than they could
/// have, which costs others no branch.
MOE_DEVICE void multiply(Sums &sums, u32 stage, const Operands &o, int count) {
#pragma unroll
  for (int k = 0; k < kStepCols / 16; ++k) {
    Weights w[MOE_TILES];
#pragma unroll
    for (int i = 0; i < MOE_TILES; ++i)
      loadWeights(w[i],
                  stage + (i / kRowTiles * kBlockRows + i % kRowTiles * 16) *
                              kWeightWords * 16,
                  o, k);
#pragma unroll
    for (int two = 0; two < kTiles; two += 2) {
      if (MOE_JOBS == MOE_EXPERTS && 8 * two >= count)
        break;
#pragma unroll
      for (int p = 0; p < MOE_PARTS; ++p) {
        u32 b[4];
        loadMatrices(b, stage + o.act[k] +
                            (p * MOE_ROWS + 8 * two) * kActWords * 16);
#pragma unroll
        for (int i = 0; i < MOE_TILES; ++i)
#pragma unroll
          for (int part = 0; part < (kIsF32 && p == 0 ? 2 : 1); ++part) {
            mma(sums[i][two], w[i].part[part], b[0], b[1]);
            mma(sums[i][two + 1], w[i].part[part], b[2], b[3]);
          }
      }
    }
  }
}

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

MOE_KERNEL(kThreads, MOE_BLOCKS, HalfGemmArgs) {
  extern __shared__ uint4 memory[];
  Job job = findGroup(a);
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
  i64 blockRow = i64(blockIdx.x) * kBlockRows;
  // Warps past the last row multiply nothing, but they copy.
  bool isInside =
      blockRow + warpRow * kRowTiles * 16 < a.w.rows && act < job.count;
  Sources sources = sourcesOf(a, job, blockRow, slice, thread);
  Operands operands = operandsOf(warpRow, act);
  // Steps of all slices together; a stage has one of each slice.
  constexpr u32 kStageBytes = sizeof(Stage) * MOE_SLICES;
  int rounds =
      (int(a.w.cols) + kStepCols * MOE_SLICES - 1) / (kStepCols * MOE_SLICES);
  u32 first = sharedAddress(memory) + slice * u32(sizeof(Stage));
  u32 end = first + MOE_STAGES * kStageBytes;
#pragma unroll
  for (int i = 0; i < MOE_STAGES - 1; ++i) {
    if (i < rounds)
      fillStage(first + i * kStageBytes, sources, a, thread);
    commitCopies();
  }
  Sums sums = {};
  u32 here = first, there = end - kStageBytes;
  for (int round = 0; round < rounds; ++round) {
    waitCopies<MOE_STAGES - 2>();
    __syncthreads(); // This round is complete, the one before it is left.
    if (round + MOE_STAGES - 1 < rounds)
      fillStage(there, sources, a, thread);
    commitCopies();
    if (isInside)
      multiply(sums, here, operands, job.count - act);
    there = here;
    here = here + kStageBytes < end ? here + kStageBytes : first;
  }
#if MOE_SLICES > 1
  __syncthreads();
  addSlices(sums, (float *)memory, slice, thread);
  if (slice)
    return;
#endif
  if (!isInside)
    return;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      int i = act + 8 * tile + 2 * (lane % 4) + t;
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
        i64 row = blockRow + 16 * (warpRow * kRowTiles + r / 2) + lane / 4 +
                  8 * (r % 2);
        if (row >= a.w.rows)
          continue;
        float sum = sums[r / 2][tile][r % 2 * 2 + t] * scale, up = 0;
#ifdef MOE_GATE
        up = sums[kRowTiles + r / 2][tile][r % 2 * 2 + t] * scale;
#endif
        finish(a, job.matrix, out, row, sum, up);
      }
    }
}
