//===- HalfActs.cuh - Activations of HalfGemm.cu: rows ----------*- C++ -*-===//
//
// The rows that Narrow.cu or NarrowA8.cu have made, one after the other. Each
// block copies what it needs.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_HALFACTS_CUH
#define MOE_KERNELS_CUDA_HALFACTS_CUH

// A thread copies the same sixteen bytes of rows that are kActApart apart.
constexpr int kActApart = kSliceThreads / kActWords;
constexpr int kActCopies = (MOE_ROWS + kActApart - 1) / kActApart;
static_assert(kActApart % 8 == 0, "rows have their words in the same order");

/// What this thread copies next of activations: for each of its rows, the
/// number of sixteen bytes from the beginning of all rows; and how many columns
/// a row has from there on, with the zeros that fill it up.
struct ActSource {
  u32 word[kActCopies];
  int cols;
  u32 to; ///< Offset of the first copy in a stage.
};

/// Returns what the thread copies first for round `round`. Rows past a job's
/// last read the first one; their results are not stored.
MOE_DEVICE ActSource actSource(const HalfGemmArgs &a, const Job &job, int round,
                               int slice, int thread, u32) {
  ActSource s;
  int row = thread / kActWords, word = thread % kActWords;
  int column = (round * MOE_SLICES + slice) * kStepCols + word * 8;
#pragma unroll
  for (int i = 0; i < kActCopies; ++i) {
    int t = row + i * kActApart;
    s.word[i] =
        u32((narrowRow(a, job, t < job.count ? t : 0) * a.pitch + column) / 8);
    keep(s.word[i]);
  }
  s.cols = int(a.pitch) - column;
  s.to = u32(sizeof(WeightStage)) + placeOf<kActWords>(row, word) * 16;
  keep(s.to);
  return s;
}

/// Begins share `part` of `parts` of the copies of the slice's next step to the
/// stage at shared address `stage`. Columns past a row's last become zero.
MOE_DEVICE void fillActs(u32 stage, ActSource &s, const HalfGemmArgs &a,
                         int thread, int part, int parts) {
#pragma unroll
  for (int i = 0; i < kActCopies; ++i)
    if ((kActCopies - 1 - i) % parts == part &&
        (MOE_ROWS % kActApart == 0 ||
         thread / kActWords + i * kActApart < MOE_ROWS)) {
#pragma unroll
      for (int p = 0; p < MOE_PARTS; ++p)
        copyAsync(
            stage + s.to + (p * MOE_ROWS + i * kActApart) * kActWords * 16,
            a.narrowed + i64(s.word[i]) * 8 + p * a.plane, s.cols > 0 ? 16 : 0);
      s.word[i] += kActWords * MOE_SLICES;
    }
  if (part == parts - 1)
    s.cols -= kStepCols * MOE_SLICES;
}

// Copies of HalfTiles.cuh have other waits than cp.async.
MOE_DEVICE void awaitActs(ActSource &) {}
MOE_DEVICE void endActs(ActSource &) {}

#endif // MOE_KERNELS_CUDA_HALFACTS_CUH
