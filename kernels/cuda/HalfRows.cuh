//===- HalfRows.cuh - Weights of HalfGemm.cu: rows of files -----*- C++ -*-===//
//
// F32, F16 and BF16. Rows pass through shared memory as they are; ldmatrix
// gives each lane its operands. F32 is split into three 16-bit numbers as it
// comes from there.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_HALFROWS_CUH
#define MOE_KERNELS_CUDA_HALFROWS_CUH

constexpr bool kIsF32 = MOE_FORMAT == MOE_F32;
constexpr int kElementBytes = kIsF32 ? 4 : 2;
constexpr int kWeightWords = kStepCols * kElementBytes / 16;
/// Number of 16-bit numbers of a weight.
constexpr int kWeightParts = kIsF32 ? 3 : 1;

struct WeightStage {
  uint4 rows[kMatrices][kBlockRows * kWeightWords];
};

// A thread copies the same sixteen bytes of rows that are kWeightApart apart.
constexpr int kWeightApart = kSliceThreads / kWeightWords;
constexpr int kWeightCopies = (kBlockRows + kWeightApart - 1) / kWeightApart;
static_assert(kWeightApart % 8 == 0, "rows have their words in the same order");

/// What this thread copies next of weights: addresses in its rows, and how many
/// columns a row has from there on. Addresses that only advance cost the loop
/// four instructions.
struct WeightSource {
  const u8 *row[kMatrices][kWeightCopies];
  int cols;
  u32 to; ///< Offset of the first copy in a stage.
};

/// Returns what the thread copies first for round `round`. Rows past a matrix's
/// last read the last one; their results are not stored.
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

/// Begins share `part` of `parts` of the copies of the slice's next step to the
/// stage at shared address `stage`. Columns past a row's last become zero.
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

/// Operand A of sixteen weight rows by sixteen columns, for each part.
struct Weights {
  u32 part[kWeightParts][4];
};

/// Matrix loads of sixteen weight rows in a step: each loads sixteen columns,
/// or eight of F32.
constexpr int kLoads = kStepCols / (kIsF32 ? 8 : 16);

/// Offsets of the lane's addresses for ldmatrix from the beginning of a stage,
/// for the warp's first sixteen rows. Sixteen rows further the words have the
/// same order, so that all other addresses are constants more.
struct WeightLane {
  u32 at[kLoads];
};
MOE_DEVICE WeightLane weightLane(int warpRow) {
  int lane = threadIdx.x % 32;
  WeightLane o;
  // The order of the four matrices: rows 0 .. 7 and 8 .. 15 of a word, then of
  // the next word.
  int row = warpRow * kRowTiles * 16 + lane % 16;
#pragma unroll
  for (int i = 0; i < kLoads; ++i)
    o.at[i] = placeOf<kWeightWords>(row, 2 * i + lane / 16) * 16;
  return o;
}

/// Tiles that one loadWeights() loads, and what it keeps for the next columns.
constexpr int kLoadTiles = 1;
struct Held {};

/// Loads columns 16 `k` .. 16 `k` + 15 of tile `i` of the warp's rows to `w`.
/// Of F32, ldmatrix gives a lane columns c and c + 4 of eight, which become
/// neighbours in k; activations have the same order (Narrow.cu).
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
      u32 pair[kWeightParts];
      split(pair, __int_as_float(int(x[j])), __int_as_float(int(x[j + 2])));
#pragma unroll
      for (int p = 0; p < kWeightParts; ++p)
        w->part[p][2 * half + j] = pair[p];
    }
  }
#else
  loadMatrices(w->part[0], rows + lane.at[k]);
#endif
}

/// Returns the weight row, from the warp's first one, of a lane's sums of tile
/// `i`: of sums 0 and 1 (`half` 0) or of sums 2 and 3 (`half` 1).
MOE_DEVICE int weightRow(int i, int half) {
  return 16 * i + int(threadIdx.x % 32) / 4 + 8 * half;
}

#endif // MOE_KERNELS_CUDA_HALFROWS_CUH
