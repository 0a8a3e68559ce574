//===- HalfRows.cuh - Weights of HalfGemm.cu: rows of files -----*- C++ -*-===//
//
// F32, F16 and BF16. Rows pass through shared memory as they are; ldmatrix
// gives each lane its operands. F32 is split into two 16-bit numbers as it
// comes from there.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_HALFROWS_CUH
#define MOE_KERNELS_CUDA_HALFROWS_CUH

constexpr bool kIsF32 = MOE_FORMAT == MOE_F32;
constexpr int kElementBytes = kIsF32 ? 4 : 2;
constexpr int kWeightWords = kStepCols * kElementBytes / 16;
/// Number of 16-bit numbers of a weight.
constexpr int kWeightParts = kIsF32 ? 2 : 1;

struct WeightStage {
  uint4 rows[kMatrices][kBlockRows * kWeightWords];
};

// A thread copies the same word of rows that are so many apart.
constexpr int kWeightApart = kSliceThreads / kWeightWords;
constexpr int kWeightCopies = (kBlockRows + kWeightApart - 1) / kWeightApart;
static_assert(kWeightApart % 8 == 0, "rows have their words in the same order");

/// What this thread copies next: addresses in its rows, and the number of
/// columns from there to the end of a row. Addresses that only advance cost the
/// loop four instructions.
struct WeightSource {
  const u8 *row[kMatrices][kWeightCopies];
  int cols;
  u32 to; ///< From the beginning of a stage.
};

/// From round `round` on. Rows past a matrix's last read the last one; their
/// results are not stored.
MOE_DEVICE WeightSource weightSource(const HalfGemmArgs &a, const Job &job,
                                     i64 blockRow, int round, int slice,
                                     int thread) {
  WeightSource s;
  int row = thread / kWeightWords, word = thread % kWeightWords;
  int column = (round * MOE_SLICES + slice) * kStepCols +
               word * kStepCols / kWeightWords;
#pragma unroll
  for (int m = 0; m < kMatrices; ++m) {
    const Matrix &w = m ? a.up : a.w;
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i) {
      i64 at = blockRow + row + i * kWeightApart;
      at = at < w.rows ? at : w.rows - 1;
      s.row[m][i] = w.data + job.matrix * w.outerStride + at * w.rowStride +
                    column * kElementBytes;
    }
  }
  s.cols = int(a.w.cols) - column;
  s.to = placeOf<kWeightWords>(row, word) * 16;
  return s;
}

/// Begins part `part` of `parts` of the copies of the slice's next step to the
/// stage at shared address `stage`; past a row's last column are zeros.
MOE_DEVICE void fillWeights(u32 stage, WeightSource &s, int, int thread,
                            int part, int parts) {
  constexpr int kColumns = kStepCols * MOE_SLICES;
#pragma unroll
  for (int m = 0; m < kMatrices; ++m)
#pragma unroll
    for (int i = 0; i < kWeightCopies; ++i)
      if ((m * kWeightCopies + i) % parts == part &&
          (kBlockRows % kWeightApart == 0 ||
           thread / kWeightWords + i * kWeightApart < kBlockRows)) {
        copyAsync(stage + s.to +
                      (m * kBlockRows + i * kWeightApart) * kWeightWords * 16,
                  s.row[m][i], s.cols > 0 ? 16 : 0);
        s.row[m][i] += kColumns * kElementBytes;
      }
  if (part == parts - 1)
    s.cols -= kColumns;
}

/// Rows have no scales.
struct Scales {};
MOE_DEVICE void loadScales(Scales &, const WeightSource &, int, int) {}
MOE_DEVICE void storeScales(u32, const Scales &, const WeightSource &, int,
                            int) {}

/// The operands of sixteen weight rows and columns: those of F32, high and low.
struct Weights {
  u32 part[kWeightParts][4];
};

/// Words of weights that a lane's address moves on by for the next eight
/// columns (F32) or sixteen.
constexpr int kLoads = kStepCols / (kIsF32 ? 8 : 16);

/// The lane's addresses for ldmatrix, from the beginning of a stage. Sixteen
/// rows further the order of words is the same, so that all others are
/// constants more.
struct WeightLane {
  u32 at[kLoads];
};
MOE_DEVICE WeightLane weightLane(int warpRow) {
  int lane = threadIdx.x % 32;
  WeightLane o;
  // ldmatrix order: rows 0 .. 7 and 8 .. 15 of a word, then of the next one.
  int row = warpRow * kRowTiles * 16 + lane % 16;
#pragma unroll
  for (int i = 0; i < kLoads; ++i)
    o.at[i] = placeOf<kWeightWords>(row, 2 * i + lane / 16) * 16;
  return o;
}

/// Tiles that are loaded together, and what is kept for the next columns.
constexpr int kLoadTiles = 1;
struct Held {};

/// Loads the weights of tile `i` of the warp, and columns from 16 `k` on.
MOE_DEVICE void loadWeights(Weights *w, Held &, u32 stage,
                            const WeightLane &lane, int i, int k) {
  u32 rows = stage + (i / kRowTiles * kBlockRows + i % kRowTiles * 16) *
                         kWeightWords * 16;
#if MOE_FORMAT == MOE_F32
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    u32 x[4];
    loadMatrices(x, rows + lane.at[2 * k + half]);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      Split two =
          split(__int_as_float(int(x[j])), __int_as_float(int(x[j + 2])));
      w->part[0][2 * half + j] = two.high;
      w->part[1][2 * half + j] = two.low;
    }
  }
#else
  loadMatrices(w->part[0], rows + lane.at[k]);
#endif
}

/// Row of tile `i` of the warp that the lane's sums 0 and 1 (`half` 0) or 2 and
/// 3 belong to, from the warp's first one.
MOE_DEVICE int weightRow(int i, int half) {
  return 16 * i + int(threadIdx.x % 32) / 4 + 8 * half;
}

#endif // MOE_KERNELS_CUDA_HALFROWS_CUH
