// Products of quantised weights with three to eight rows: decode of several
// sequences. The rows are the columns of one mma, and every weight is read from
// memory once. (For fewer rows Gemv.cu is faster.)
//
// A block has two panels, 32 weight rows; its warps divide the columns and add
// up their partial sums in the order of warps. A lane has kUnits units of
// weights in flight at a time, as many as registers hold: with eight warps of 4
// units of Q4_K a block requests 16 KB at once, where bandwidth times latency
// is 5 KB per multiprocessor on a 4090 and 15 on an H100.
//
// An mma costs as much for one row as for eight, and far less than reading the
// weights: 32 columns of 32 weight rows are 512 bytes of 4-bit codes, two mma
// and some 80 instructions of unpacking and scaling, or 20 cycles of a
// multiprocessor, which gets 14 bytes per cycle on an H100 and three on a 4090.

#include "kernels/cuda/A8.cuh"
#include "kernels/cuda/Jobs.cuh"
#include "kernels/cuda/Rows16.cuh"

#if defined(MOE_GATE) && defined(MOE_DIGITS) && MOE_BITS < 4
constexpr int kUnits = 1; // More to unpack: two would spill.
#elif defined(MOE_GATE) || MOE_BITS > 5 || defined(MOE_HALVES)
constexpr int kUnits = 2;
#else
constexpr int kUnits = 4;
#endif
/// Floats between the sums of two rows, so that four columns' lanes use four
/// banks.
constexpr int kPitch = 36;

struct Lane {
  int g, c, quad;
};

/// The weights of a matrix that a warp reads in one pass.
struct Weights {
  Codes codes[kUnits];
  UnitScales unit[kUnits];
  BlockScales block[kTileUnits == 1 ? kUnits : 1];
};
/// The activations of that pass: codes of row g; scales of rows 2 c and 2 c +
/// 1, with the sums of both halves of a unit.
struct Acts {
  u32 low[kUnits], high[kUnits];
  float scale[kUnits][2];
  u32 sums[kUnits][2];
};

/// Loads units of the lane's `panel`. `first` is a multiple of kUnits; past the
/// last unit, the last one is read again.
MOE_DEVICE void loadWeights(Weights &w, const u8 *panel, int first, int units,
                            const Lane &lane) {
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    int unit = kTileUnits == 1 ? min(first + i, units - 1) : first + i;
    int u = unit % kTileUnits;
    const u8 *tile = panel + i64(unit / kTileUnits) * kTileBytes;
    loadCodes(w.codes[i], tile + kScalePart + u * kUnitBytes + 16 * lane.quad,
              lane.c);
    loadScales(w.unit[i], tile, u, lane.quad);
#ifdef MOE_SHIFTS
    w.codes[i].shifts = w.unit[i].shifts;
#endif
    if (kTileUnits == 1 || i == 0)
      loadScales(w.block[kTileUnits == 1 ? i : 0], tile, lane.quad);
  }
}

MOE_DEVICE void loadActs(Acts &a, const u8 *const (&rows)[3], i64 cols,
                         int first, int units, const Lane &lane) {
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    int unit = first + i;
    bool isInside = kTileUnits > 1 || unit < units;
    const u8 *q = rows[0] + 32 * i64(unit) + 4 * lane.c;
    bool isRow = isInside && rows[0];
    a.low[i] = isRow ? load4(q) : 0;
    a.high[i] = isRow ? load4(q + 16) : 0;
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const u8 *row = rows[1 + t];
      bool isScale = isInside && row;
      a.scale[i][t] = isScale ? __ldg(a8Scales(row, cols) + unit) : 0;
#if defined(MOE_MIN) || defined(MOE_ZERO)
      a.sums[i][t] = isScale ? __ldg(a8Sums(row, cols) + unit) : 0;
#else
      a.sums[i][t] = 0;
#endif
    }
  }
}

/// sums[row][t] += weights of the lane's row times activations 2 c + t. It is a
/// partial sum: the lanes of a group add up to the whole.
MOE_DEVICE void multiply(float (&sums)[4][2], const Weights &w, const Acts &a,
                         int first, const Lane &lane) {
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    Factors f;
    decode(f, w.block[kTileUnits == 1 ? i : 0], w.unit[i],
           (first + i) % kTileUnits);
    RowCodes rows[4];
#pragma unroll
    for (int r = 0; r < 4; ++r)
      rows[r] = rowCodes(w.codes[i], r, lane.c);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      int start[2];
#ifdef MOE_MIN
      float sum[2];
#endif
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        int both = kHalves == 1
                       ? firstSum(a.sums[i][t]) + secondSum(a.sums[i][t])
                   : half == 0 ? firstSum(a.sums[i][t])
                               : secondSum(a.sums[i][t]);
        start[t] = kMagicBits - kZero * both;
#ifdef MOE_MIN
        sum[t] = a.scale[i][t] * float(both);
#endif
      }
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        int c[4];
        const RowCodes &u = rows[2 * pair], &v = rows[2 * pair + 1];
#ifdef MOE_HALVES
        mma16(c, half ? u.high : u.low, half ? v.high : v.low,
              half ? a.high[i] : a.low[i], start);
#else
        mma32(c, u.low, v.low, u.high, v.high, a.low[i], a.high[i], start);
#endif
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          int r = 2 * pair + k / 2, t = k % 2;
          float product = __int_as_float(c[k]) - kMagic;
          sums[r][t] =
              fmaf(product, f.scale[half][r] * a.scale[i][t], sums[r][t]);
#ifdef MOE_MIN
          sums[r][t] = fmaf(f.min[half][r], sum[t], sums[r][t]);
#endif
        }
      }
    }
  }
}

/// Writes a warp's sums to shared memory: [row of activations][weight row].
MOE_DEVICE void storePart(float *part, const float (&sums)[4][2], int count,
                          const Lane &lane) {
#pragma unroll
  for (int t = 0; t < 2; ++t)
    if (2 * lane.c + t < count)
      *(float4 *)(part + (2 * lane.c + t) * kPitch + 4 * lane.g) =
          make_float4(sums[0][t], sums[1][t], sums[2][t], sums[3][t]);
}

MOE_KERNEL(256, 2, MOE_GEMM_ARGS) {
  MOE_BRING_NEXT(a)
  extern __shared__ float4 parts4[]; // [warps][rows][kPitch], again for up
  float *parts = (float *)parts4;
  Job job = findJob(a, blockIdx);
  if (job.count <= 0)
    return;
  int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  Lane lane = {int(threadIdx.x % 32) / 4, int(threadIdx.x) % 4,
               int(threadIdx.x % 32) / 4 % 4};
  i64 panels = (a.w.rows + 15) / 16;
  i64 panel = i64(blockIdx.x) * 2 + lane.g / 4;
  panel = panel < panels ? panel : panels - 1;
  const u8 *rows[3] = {
      lane.g < job.count ? actRow(a, job, lane.g) : nullptr,
      2 * lane.c < job.count ? actRow(a, job, 2 * lane.c) : nullptr,
      2 * lane.c + 1 < job.count ? actRow(a, job, 2 * lane.c + 1) : nullptr};
  const u8 *w =
      a.w.data + job.matrix * a.w.outerStride + panel * 16 * a.w.rowStride;
  int units = int(a.w.cols / 32);
  float sums[4][2] = {};
#ifdef MOE_GATE
  const u8 *up =
      a.up.data + job.matrix * a.up.outerStride + panel * 16 * a.up.rowStride;
  float ups[4][2] = {};
#endif
  for (int first = warp * kUnits; first < units; first += warps * kUnits) {
    Weights weights;
    Acts acts;
    loadWeights(weights, w, first, units, lane);
#ifdef MOE_GATE
    Weights upWeights;
    loadWeights(upWeights, up, first, units, lane);
#endif
    loadActs(acts, rows, a.w.cols, first, units, lane);
    multiply(sums, weights, acts, first, lane);
#ifdef MOE_GATE
    multiply(ups, upWeights, acts, first, lane);
#endif
  }
  int partFloats = job.count * kPitch;
  storePart(parts + warp * partFloats, sums, job.count, lane);
#ifdef MOE_GATE
  float *upParts = parts + warps * partFloats;
  storePart(upParts + warp * partFloats, ups, job.count, lane);
#endif
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * job.count; i += blockDim.x) {
    i64 row = i64(blockIdx.x) * 32 + i % 32;
    if (row >= a.w.rows)
      continue;
    int at = i / 32 * kPitch + i % 32;
    float sum = 0, upSum = 0;
    for (int k = 0; k < warps; ++k) {
      sum += parts[k * partFloats + at];
#ifdef MOE_GATE
      upSum += upParts[k * partFloats + at];
#endif
    }
    finish(a, job.matrix, outRow(a, job, i / 32), row, sum, upSum);
  }
}
