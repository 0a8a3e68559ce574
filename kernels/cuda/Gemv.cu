// Products of quantised weights with one or two rows: decode. Every weight is
// read from memory once and multiplied with all rows by dot products of four
// bytes (dp4a).
//
// A block has a panel of 16 weight rows, or 8 rows of a matrix with so few that
// there would be too few blocks: 4 MOE_QUADS rows. Its warps divide the
// columns, and their partial sums are added in the order of warps. Lane
// MOE_QUADS k + q has rows 4 q .. 4 q + 3 and, of the warp's units (32
// columns), every eighth one from number k on (with two quads, every
// sixteenth). It reads one 16-byte word of a unit per bit of a code, and
// unpacks scales that no other lane needs. An mma (GemvMma.cu) needs four lanes
// for a unit, each of which unpacks all its scales: for Q4_K 111 instructions
// instead of 40 for 16 rows by 64 columns, out of the 160 that an H100 issues
// while memory delivers them (14 bytes per cycle and multiprocessor; a 4090's:
// three). An mma costs the same for eight rows of activations, this kernel 14
// instructions more for each, and registers: from three rows on the mma wins.
//
// While a warp multiplies, others wait for their words. Three blocks of eight
// warps with 4-bit codes request 48 KB per multiprocessor, where bandwidth
// times latency is 5 KB on a 4090 and 15 on an H100. Two blocks that load the
// next unit before they multiply one were 5 % slower there for Q4_K, 18 %
// slower for Q2_K, and 4 % faster only for Q8_0.

#include "kernels/cuda/A8.cuh"
#include "kernels/cuda/Jobs.cuh"
#include "kernels/cuda/Rows16.cuh"

constexpr int kLanesK = 32 / MOE_QUADS; ///< Lanes that share the same rows.
constexpr int kBlockRows = 4 * MOE_QUADS;
/// Units that a lane loads before it multiplies. A matrix of few rows has one
/// block on a multiprocessor, so that no other block hides the latency of a
/// second unit's loads. In a fused launch, blocks of other products do.
#if MOE_QUADS < 4 && !defined(MOE_PIECE)
constexpr int kAtOnce = 2;
#else
constexpr int kAtOnce = 1;
#endif
/// Blocks per multiprocessor. Two with 6-bit codes have as many bytes in flight
/// as three with 4-bit codes. With three, gate and up of 6-bit codes would
/// spill, and so would two units in flight.
#if (MOE_BITS == 6 && defined(MOE_GATE)) ||                                    \
    (MOE_QUADS < 4 && !defined(MOE_PIECE))
constexpr int kBlocks = MOE_ROWS == 1 ? 2 : 1;
#else
constexpr int kBlocks = MOE_ROWS == 1 ? 3 : 1;
#endif

struct Lane {
  int k, quad; ///< quad: rows 4 quad .. 4 quad + 3 of a panel.
};

/// A unit's weights of the lane's four rows: codes and scales as stored.
struct Unit {
  uint4 word[MOE_BITS];
  UnitScales unit;
  BlockScales block;
};

MOE_DEVICE void loadUnit(Unit &w, const u8 *panel, int unit, int quad) {
  int u = unit % kTileUnits;
  const u8 *tile = panel + i64(unit / kTileUnits) * kTileBytes;
  const u8 *codes = tile + kScalePart + u * kUnitBytes + 16 * quad;
#pragma unroll
  for (int i = 0; i < MOE_BITS; ++i)
    w.word[i] = loadOnce(codes + 64 * i);
  loadScales(w.unit, tile, u, quad);
  loadScales(w.block, tile, quad);
}

/// A unit's activations of one row: the quantised values of groups 0 .. 7 of
/// four columns, their scale, and sums as a8Sums() has them.
struct Act {
  u32 group[8];
  float scale;
  u32 sums;
};

MOE_DEVICE void loadAct(Act &x, const u8 *row, i64 cols, int unit) {
  const uint4 *q = (const uint4 *)(row + 32 * i64(unit));
  uint4 a = __ldg(q), b = __ldg(q + 1);
  x.group[0] = a.x;
  x.group[1] = a.y;
  x.group[2] = a.z;
  x.group[3] = a.w;
  x.group[4] = b.x;
  x.group[5] = b.y;
  x.group[6] = b.z;
  x.group[7] = b.w;
  x.scale = __ldg(a8Scales(row, cols) + unit);
#if defined(MOE_MIN) || defined(MOE_ZERO)
  x.sums = __ldg(a8Sums(row, cols) + unit);
#else
  x.sums = 0;
#endif
}

/// Returns `sum` plus the products of four bytes of weights and activations.
MOE_DEVICE int dot(u32 weights, u32 act, int sum) {
#ifdef MOE_A_SIGNED
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(weights), "r"(act));
#else
  asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(weights), "r"(act));
#endif
  return sum;
}

#ifdef MOE_SHIFTS
#include "kernels/cuda/GemvDigits.cuh"
#else
/// Returns the codes of groups c and c + 4 of a row, c < 4.
MOE_DEVICE RowCodes codesOf(const Unit &w, int row, int c) {
#if MOE_BITS == 8
  return {part(w.word[c], row), part(w.word[c + 4], row)};
#else
  Codes codes;
#if MOE_BITS >= 4
  codes.word[0] = w.word[c];
#if MOE_BITS > 4
  codes.word[1] = w.word[4];
#endif
#if MOE_BITS == 6
  codes.word[2] = w.word[5];
#endif
#else
#pragma unroll
  for (int i = 0; i < MOE_BITS; ++i)
    codes.word[i] = w.word[i];
#endif
  return rowCodes(codes, row, c);
#endif
}

/// sums[row][i] += the unit's weights times its activations of row i.
MOE_DEVICE void multiply(float (&sums)[4][MOE_ROWS], const Unit &w, int unit,
                         const Act (&acts)[MOE_ROWS]) {
  Factors f;
  decode(f, w.block, w.unit, unit % kTileUnits);
  int dots[MOE_ROWS][kHalves][4];
#pragma unroll
  for (int i = 0; i < MOE_ROWS; ++i) {
    int first = firstSum(acts[i].sums), second = secondSum(acts[i].sums);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      int sum = kHalves == 1 ? first + second : half ? second : first;
#pragma unroll
      for (int r = 0; r < 4; ++r)
        dots[i][half][r] = kMagicBits - kZero * sum;
#ifdef MOE_MIN
      float scaled = acts[i].scale * float(sum);
#pragma unroll
      for (int r = 0; r < 4; ++r)
        sums[r][i] = fmaf(f.min[half][r], scaled, sums[r][i]);
#endif
    }
  }
#pragma unroll
  for (int c = 0; c < 4; ++c)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      RowCodes codes = codesOf(w, r, c);
#pragma unroll
      for (int i = 0; i < MOE_ROWS; ++i) {
        int &low = dots[i][0][r], &high = dots[i][kHalves - 1][r];
        low = dot(codes.low, acts[i].group[c], low);
        high = dot(codes.high, acts[i].group[c + 4], high);
      }
    }
#pragma unroll
  for (int i = 0; i < MOE_ROWS; ++i)
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
#pragma unroll
      for (int r = 0; r < 4; ++r)
        sums[r][i] = fmaf(__int_as_float(dots[i][half][r]) - kMagic,
                          f.scale[half][r] * acts[i].scale, sums[r][i]);
}
#endif // MOE_SHIFTS

/// Multiplies all of a warp's units of one matrix. Returns the lane's rows in
/// `sums`, the same in all lanes that have them.
MOE_DEVICE void multiplyPanel(float (&sums)[4][MOE_ROWS], const u8 *panel,
                              const u8 *const (&rows)[MOE_ROWS], i64 cols,
                              const Lane &lane) {
  int units = int(cols / 32), step = blockDim.x / 32 * kLanesK;
  int unit = threadIdx.x / 32 * kLanesK + lane.k;
  for (; unit < units; unit += step * kAtOnce) {
    Unit w[kAtOnce];
    Act acts[kAtOnce][MOE_ROWS];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      if (int own = unit + j * step; j == 0 || own < units) {
        loadUnit(w[j], panel, own, lane.quad);
#pragma unroll
        for (int i = 0; i < MOE_ROWS; ++i)
          loadAct(acts[j][i], rows[i], cols, own);
      }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      if (int own = unit + j * step; j == 0 || own < units)
        multiply(sums, w[j], own, acts[j]);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int i = 0; i < MOE_ROWS; ++i)
#pragma unroll
      for (int k = MOE_QUADS; k < 32; k *= 2)
        sums[r][i] += __shfl_xor_sync(kAllLanes, sums[r][i], k);
}

// Three blocks with one row: 80 registers. Two rows need more than half of a
// multiprocessor's registers.
MOE_KERNEL(256, kBlocks, MOE_GEMM_ARGS) {
  MOE_BRING_NEXT(a)
  __shared__ float parts[2][8][MOE_ROWS][kBlockRows];
  Job job = findJob(a, blockIdx);
#if MOE_JOBS == MOE_EXPERTS || defined(MOE_PIECE)
  // A kernel of its own, for tokens, loads weights before it knows the step.
  if (job.count <= 0)
    return;
#endif
  int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  // The number of the lane's four rows among those of the block; `lane.quad` is
  // their number in their panel.
  int own = threadIdx.x % MOE_QUADS;
  i64 firstRow = i64(blockIdx.x) * kBlockRows;
  Lane lane = {int(threadIdx.x % 32) / MOE_QUADS, int(firstRow / 4 % 4) + own};
  const u8 *rows[MOE_ROWS];
#pragma unroll
  for (int i = 0; i < MOE_ROWS; ++i) // Missing rows repeat the first one.
    rows[i] = actRow(a, job, i < job.count ? i : 0);
  i64 panelRow = firstRow / 16 * 16;
  float sums[4][MOE_ROWS] = {};
  multiplyPanel(
      sums, a.w.data + job.matrix * a.w.outerStride + panelRow * a.w.rowStride,
      rows, a.w.cols, lane);
#ifdef MOE_GATE
  float ups[4][MOE_ROWS] = {};
  multiplyPanel(ups,
                a.up.data + job.matrix * a.up.outerStride +
                    panelRow * a.up.rowStride,
                rows, a.w.cols, lane);
#endif
  if (lane.k == 0)
#pragma unroll
    for (int i = 0; i < MOE_ROWS; ++i)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        parts[0][warp][i][4 * own + r] = sums[r][i];
#ifdef MOE_GATE
        parts[1][warp][i][4 * own + r] = ups[r][i];
#endif
      }
  __syncthreads();
  for (int i = threadIdx.x; i < kBlockRows * job.count; i += blockDim.x) {
    int r = i % kBlockRows, t = i / kBlockRows;
    i64 row = firstRow + r;
    if (row >= a.w.rows)
      continue;
    float sum = 0, up = 0;
    for (int k = 0; k < warps; ++k) {
      sum += parts[0][k][t][r];
#ifdef MOE_GATE
      up += parts[1][k][t][r];
#endif
    }
    finish(a, job.matrix, outRow(a, job, t), row, sum, up);
  }
}
