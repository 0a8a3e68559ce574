// Quantised products of many rows: prefill. Gemv.cu's fragments, with more
// columns: weights go from memory to registers and are unpacked there once for
// all rows of activations that a warp has; activations pass through shared
// memory, two stages of four units (128 columns), copied while the others are
// multiplied.
//
// A block has MOE_WARP_ROWS x MOE_WARP_COLS warps. A warp has 32 weight rows
// and 8 * kTiles rows of activations: kTiles mma columns, of which each unit's
// weights are unpacked once. Sums are 8 kTiles registers a lane (twice with a
// gate). Per unit and warp: 2 kTiles mma, and per sum an addition that takes
// the magic number off, a product of the two scales and a multiply-add (and
// another with a minimum): 24 kTiles operations a lane beside 32 kTiles cycles
// of tensor core on GeForce (661 TOPS: 4 cycles of a multiprocessor an mma, 16
// of its quarter), 8 kTiles cycles on an H100, where scaling is what bounds it.

#define MOE_KEEP_WEIGHTS // Warps side by side read the same.
#define MOE_A_SIGNED     // Codes less their zero.
#include "kernels/cuda/A8.cuh"
#include "kernels/cuda/Jobs.cuh"
#include "kernels/cuda/Rows16.cuh"

constexpr int kTiles = MOE_ROWS / MOE_WARP_COLS / 8;
constexpr int kStageUnits = 4; // 128 columns: a swizzled row of 128 bytes
constexpr int kThreads = 32 * MOE_WARP_ROWS * MOE_WARP_COLS;
static_assert(kTiles % 2 == 0, "ldmatrix takes two tiles at a time");

/// What a sum is multiplied by, and with a minimum what that is: the scale
/// times the sums of the unit or its halves.
#ifdef MOE_MIN
struct alignas(8 * kHalves) ActScale {
  float scale, sum[2 * kHalves - 1];
};
#else
struct ActScale {
  float scale;
};
#endif

/// Activations of a stage: codes of row t at 128 t, sixteen bytes numbered i in
/// place i ^ t % 8, so that eight rows' are in all banks; scales of each unit.
struct Stage {
  u8 codes[MOE_ROWS][128];
  ActScale scales[kStageUnits][MOE_ROWS];
};

MOE_DEVICE u32 sharedAddress(const void *p) {
  return u32(__cvta_generic_to_shared(p));
}
/// Copies in the background; zeros where `isThere` is false.
template <int Bytes>
MOE_DEVICE void copyAsync(void *to, const void *from, bool isThere) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :
               : "r"(sharedAddress(to)), "l"(from), "n"(Bytes),
                 "r"(isThere ? Bytes : 0)
               : "memory");
#else
  if (Bytes == 16)
    *(uint4 *)to = isThere ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
  else
    *(u32 *)to = isThere ? *(const u32 *)from : 0;
#endif
}
MOE_DEVICE void commitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Until at most `Left` of the groups committed are under way.
template <int Left> MOE_DEVICE void waitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
#endif
}

/// b[0], b[1] of two mma columns at once: 16 rows' 32 bytes of unit `u`.
/// ldmatrix hands lane 4 g + c the bytes 4 c .. 4 c + 3 of row g of each of
/// four matrices of eight rows of 16 bytes.
MOE_DEVICE void loadTiles(u32 (&b)[4], const Stage &stage, int row, int u) {
  int lane = threadIdx.x % 32;
  int t = row + lane / 16 * 8 + lane % 8, i = 2 * u + lane / 8 % 2;
  const u8 *p = stage.codes[t] + 16 * (i ^ t % 8);
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
      : "r"(sharedAddress(p))
      : "memory");
}

/// Codes less kZero, as signed bytes. No byte borrows from the next: its top
/// bit is set meanwhile.
MOE_DEVICE u32 centred(u32 codes) {
#if MOE_FORMAT == MOE_Q8_0
  return codes ^ 0x80808080;
#elif defined(MOE_ZERO)
  return ((codes | 0x80808080) - MOE_ZERO * 0x01010101u) ^ 0x80808080;
#else
  return codes;
#endif
}

struct Lane {
  int g, c, quad;
};

/// A unit's weights of the lane's four rows.
struct UnitWeights {
  Codes codes;
  UnitScales unit;
  BlockScales block;
};
MOE_DEVICE void loadUnit(UnitWeights &w, const u8 *panel, int unit,
                         const Lane &lane) {
  int u = unit % kTileUnits;
  const u8 *tile = panel + i64(unit / kTileUnits) * kTileBytes;
  loadCodes(w.codes, tile + kScalePart + u * kUnitBytes + 16 * lane.quad,
            lane.c);
  loadScales(w.unit, tile, u, lane.quad);
  loadScales(w.block, tile, lane.quad);
}

/// sums[tile][row][t] += unit's weights times the stage's unit `u`, for this
/// warp's activations from `row` on.
MOE_DEVICE void multiply(float (&sums)[kTiles][4][2], const UnitWeights &w,
                         int unit, const Stage &stage, int row, int u,
                         const Lane &lane) {
  Factors f;
  decode(f, w.block, w.unit, unit % kTileUnits);
  constexpr int start[2] = {kMagicBits, kMagicBits};
  RowCodes rows[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    rows[r] = rowCodes(w.codes, r, lane.c);
    rows[r].low = centred(rows[r].low);
    rows[r].high = centred(rows[r].high);
  }
#pragma unroll
  for (int two = 0; two < kTiles; two += 2) {
    u32 b[4];
    loadTiles(b, stage, row + 8 * two, u);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const ActScale *acts = stage.scales[u] + row + 8 * (two + k) + 2 * lane.c;
      ActScale act[2] = {acts[0], acts[1]};
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          int c[4];
          const RowCodes &x = rows[2 * pair], &y = rows[2 * pair + 1];
#ifdef MOE_HALVES
          mma16(c, half ? x.high : x.low, half ? y.high : y.low,
                b[2 * k + half], start);
#else
          mma32(c, x.low, y.low, x.high, y.high, b[2 * k], b[2 * k + 1], start);
#endif
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            int r = 2 * pair + i / 2, t = i % 2;
            float &to = sums[two + k][r][t];
            float product = __int_as_float(c[i]) - kMagic;
            to = fmaf(product, f.scale[half][r] * act[t].scale, to);
#ifdef MOE_MIN
            to = fmaf(f.min[half][r], act[t].sum[half], to);
#endif
          }
        }
    }
  }
}

#if MOE_JOBS == MOE_EXPERTS
/// The block's group of MOE_ROWS slots: groups are numbered through all
/// experts, of which each begins a group of its own. By every warp for itself.
MOE_DEVICE Job findGroup(const GemmArgs &a) {
  int lane = threadIdx.x % 32, wanted = blockIdx.y, before = 0;
  for (int first = 0; first < a.experts; first += 32) {
    int e = first + lane, groups = 0, begin = 0, count = 0;
    if (e < a.experts) {
      begin = a.offsets[e];
      count = a.offsets[e + 1] - begin;
      groups = (count + MOE_ROWS - 1) / MOE_ROWS;
    }
    int sum = groups; // inclusive
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
      int other = __shfl_up_sync(kAllLanes, sum, i);
      sum += lane >= i ? other : 0;
    }
    int own = before + sum - groups;
    u32 found =
        __ballot_sync(kAllLanes, own <= wanted && wanted < own + groups);
    if (found) {
      int from = __ffs(int(found)) - 1;
      int skip = (wanted - __shfl_sync(kAllLanes, own, from)) * MOE_ROWS;
      begin = __shfl_sync(kAllLanes, begin, from) + skip;
      count = __shfl_sync(kAllLanes, count, from) - skip;
      return {first + from, begin, min(count, MOE_ROWS)};
    }
    before += __shfl_sync(kAllLanes, sum, 31);
  }
  return {0, 0, 0};
}
#else
MOE_DEVICE Job findGroup(const GemmArgs &a) { return findJob(a); }
#endif

/// The stage's copies of columns from 32 `first` on, by all threads.
MOE_DEVICE void fillStage(Stage &stage, const GemmArgs &a,
                          const u8 *const *rows, int count, int first,
                          int units) {
  for (int i = threadIdx.x; i < MOE_ROWS * 8; i += kThreads) {
    int t = i / 8, part = i % 8;
    bool isThere = t < count && first + part / 2 < units;
    copyAsync<16>(stage.codes[t] + 16 * (part ^ t % 8),
                  isThere ? rows[t] + 32 * first + 16 * part : rows[0],
                  isThere);
  }
  commitCopies();
}

/// A thread's part of a stage's scales, on its way to shared memory.
constexpr int kScales = (MOE_ROWS * kStageUnits + kThreads - 1) / kThreads;
struct OwnScales {
  float scale[kScales];
  u32 sums[kScales];
};
MOE_DEVICE void loadOwn(OwnScales &own, const GemmArgs &a,
                        const u8 *const *rows, int count, int first,
                        int units) {
#pragma unroll
  for (int i = 0; i < kScales; ++i) {
    int at = threadIdx.x + i * kThreads;
    int t = at % MOE_ROWS, unit = first + at / MOE_ROWS;
    bool isThere = at < MOE_ROWS * kStageUnits && t < count && unit < units;
    own.scale[i] = isThere ? __ldg(a8Scales(rows[t], a.w.cols) + unit) : 0;
#ifdef MOE_MIN
    own.sums[i] = isThere ? __ldg(a8Sums(rows[t], a.w.cols) + unit) : 0;
#endif
  }
}
MOE_DEVICE void storeOwn(Stage &stage, const OwnScales &own) {
#pragma unroll
  for (int i = 0; i < kScales; ++i) {
    int at = threadIdx.x + i * kThreads;
    if (at >= MOE_ROWS * kStageUnits)
      continue;
    ActScale act;
    act.scale = own.scale[i];
#ifdef MOE_MIN
    int first = firstSum(own.sums[i]), second = secondSum(own.sums[i]);
    if (kHalves == 1) {
      act.sum[0] = act.scale * float(first + second);
    } else {
      act.sum[0] = act.scale * float(first);
      act.sum[kHalves - 1] = act.scale * float(second);
      act.sum[2 * kHalves - 2] = 0;
    }
#endif
    stage.scales[at / MOE_ROWS][at % MOE_ROWS] = act;
  }
}

MOE_KERNEL(kThreads, 1)(const __grid_constant__ GemmArgs a) {
  extern __shared__ uint4 memory[];
  Stage *stages = (Stage *)memory;
  __shared__ const u8 *rows[MOE_ROWS];
  Job job = findGroup(a);
  if (job.count <= 0)
    return;
  for (int i = threadIdx.x; i < MOE_ROWS; i += kThreads)
    rows[i] = actRow(a, job, i < job.count ? i : 0);
  __syncthreads();
  int warp = threadIdx.x / 32, lane32 = threadIdx.x % 32;
  Lane lane = {lane32 / 4, lane32 % 4, lane32 / 4 % 4};
  i64 firstRow = (i64(blockIdx.x) * MOE_WARP_ROWS + warp % MOE_WARP_ROWS) * 32;
  int firstAct = warp / MOE_WARP_ROWS * 8 * kTiles;
  i64 panels = (a.w.rows + 15) / 16, panel = firstRow / 16 + lane.g / 4;
  panel = panel < panels ? panel : panels - 1;
  const u8 *w =
      a.w.data + job.matrix * a.w.outerStride + panel * 16 * a.w.rowStride;
  float sums[kTiles][4][2] = {};
#ifdef MOE_GATE
  const u8 *up =
      a.up.data + job.matrix * a.up.outerStride + panel * 16 * a.up.rowStride;
  float ups[kTiles][4][2] = {};
#endif
  int units = int(a.w.cols / 32);
  // Warps past the last row have nothing to multiply; they copy.
  bool isInside = firstRow < a.w.rows && firstAct < job.count;
  fillStage(stages[0], a, rows, job.count, 0, units);
  OwnScales own;
  loadOwn(own, a, rows, job.count, 0, units);
  storeOwn(stages[0], own);
  UnitWeights next;
  if (isInside)
    loadUnit(next, w, 0, lane);
  for (int first = 0; first < units; first += kStageUnits) {
    int which = first / kStageUnits % 2;
    if (first + kStageUnits < units) {
      fillStage(stages[which ^ 1], a, rows, job.count, first + kStageUnits,
                units);
      loadOwn(own, a, rows, job.count, first + kStageUnits, units);
      waitCopies<1>();
    } else {
      waitCopies<0>();
    }
    __syncthreads();
    const Stage &stage = stages[which];
#pragma unroll 1
    for (int u = 0; u < kStageUnits; ++u) {
      int unit = first + u;
      if (!isInside || unit >= units)
        break;
      UnitWeights weights = next;
#ifdef MOE_GATE
      UnitWeights upWeights;
      loadUnit(upWeights, up, unit, lane);
#endif
      loadUnit(next, w, unit + 1 < units ? unit + 1 : unit, lane);
      multiply(sums, weights, unit, stage, firstAct, u, lane);
#ifdef MOE_GATE
      multiply(ups, upWeights, unit, stage, firstAct, u, lane);
#endif
    }
    if (first + kStageUnits < units)
      storeOwn(stages[which ^ 1], own);
    __syncthreads();
  }
  if (!isInside)
    return;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      int act = firstAct + 8 * tile + 2 * lane.c + t;
      if (act >= job.count)
        continue;
      float *out = outRow(a, job, act);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        i64 row = firstRow + 4 * lane.g + r;
        if (row < a.w.rows)
#ifdef MOE_GATE
          finish(a, out, row, sums[tile][r][t], ups[tile][r][t]);
#else
          finish(a, out, row, sums[tile][r][t], 0);
#endif
      }
    }
}
