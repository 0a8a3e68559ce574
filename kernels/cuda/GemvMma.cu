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

// Sixteen columns of eight rows of activations are eight lines of memory, which
// L1 looks up one after the other: loaded by each lane as an mma needs them,
// they would take three times as long as the weights. So a warp copies those of
// a pass to its own shared memory in whole lines, in the shadow of the weights'
// latency, and ldmatrix gives them to lanes.

#include "kernels/cuda/A8.cuh"
#include "kernels/cuda/AsyncCopy.cuh"
#include "kernels/cuda/Jobs.cuh"
#include "kernels/cuda/Rows16.cuh"

#if defined(MOE_GATE) &&                                                       \
    ((defined(MOE_DIGITS) && MOE_BITS < 4) || MOE_BITS == 3 || MOE_BITS == 6)
constexpr int kUnits = 1; // More to unpack: two would spill.
#elif defined(MOE_GATE) || MOE_BITS > 5 || defined(MOE_HALVES)
constexpr int kUnits = 2;
#else
constexpr int kUnits = 4;
#endif
/// Floats between the sums of two rows, so that four columns' lanes use four
/// banks.
constexpr int kPitch = 36;
constexpr int kRows = 8; ///< Of activations.
#ifdef MOE_GATE
constexpr int kMatrices = 2;
#else
constexpr int kMatrices = 1;
#endif
/// Sixteen bytes of a row's codes of a pass, and a lane's copies of them and of
/// scales.
constexpr int kActWords = 2 * kUnits;
constexpr int kCodeCopies = (kRows * kActWords + 31) / 32;
constexpr int kScaleCopies = (kRows * kUnits + 31) / 32;

struct Lane {
  int g, c, quad;
};

/// The weights of a matrix that a warp reads in one pass.
struct Weights {
  Codes codes[kUnits];
  UnitScales unit[kUnits];
  BlockScales block[kTileUnits == 1 ? kUnits : 1];
};
/// The activations of that pass, in a warp's shared memory. Sixteen bytes with
/// number i of row t are at actPlace(t, i), so that those of eight rows are in
/// different banks. Past the last unit and row are zeros.
struct ActStage {
  uint4 codes[kRows * kActWords];
  float scales[kRows][kUnits];
  u32 sums[kRows][kUnits]; ///< Of both halves.
};
MOE_DEVICE int actPlace(int t, int i) {
  return t * kActWords + (i ^ t / (8 / kActWords) % kActWords);
}
/// Bytes of a warp's shared memory: its activations, then its sums.
constexpr int kWarpBytes = MOE_WARP_BYTES;
static_assert(sizeof(ActStage) <= kWarpBytes &&
              kMatrices * kRows * kPitch * 4 <= kWarpBytes);

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

/// What a lane copies of each pass: sixteen bytes of codes and four of scales
/// and sums, of rows that are a constant number apart.
struct ActSource {
  const u8 *codes[kCodeCopies], *scales[kScaleCopies];
  bool isCodes[kCodeCopies], isScales[kScaleCopies]; ///< Else zeros.
};
MOE_DEVICE ActSource actSource(const GemmArgs &a, const Job &job) {
  ActSource s;
  int lane = threadIdx.x % 32;
  auto rowOf = [&](int t) { return actRow(a, job, t < job.count ? t : 0); };
#pragma unroll
  for (int i = 0; i < kCodeCopies; ++i) {
    int word = lane + 32 * i, t = word / kActWords;
    s.isCodes[i] = t < job.count;
    s.codes[i] = rowOf(t) + word % kActWords * 16;
  }
#pragma unroll
  for (int i = 0; i < kScaleCopies; ++i) {
    int t = (lane + 32 * i) / kUnits;
    s.isScales[i] = t < job.count;
    s.scales[i] = (const u8 *)(a8Scales(rowOf(t), a.w.cols) + lane % kUnits);
  }
  return s;
}
/// Begins the copies of units from `first` on.
MOE_DEVICE void fillActs(u32 stage, const ActSource &s, i64 cols, int first,
                         int units) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kCodeCopies; ++i) {
    int word = lane + 32 * i, w = word % kActWords;
    bool isInside = kTileUnits > 1 || first + w / 2 < units;
    if (kRows * kActWords % 32 == 0 || word < kRows * kActWords)
      copyOrZero<16>(stage + 16 * actPlace(word / kActWords, w),
                     s.codes[i] + 32 * i64(first), isInside && s.isCodes[i]);
  }
  bool isInside = kTileUnits > 1 || first + lane % kUnits < units;
#pragma unroll
  for (int i = 0; i < kScaleCopies; ++i) {
    int at = lane + 32 * i;
    if (kRows * kUnits % 32 != 0 && at >= kRows * kUnits)
      break;
    u32 to = stage + u32(sizeof(ActStage::codes)) + 4 * at;
    const u8 *from = s.scales[i] + 4 * first;
    copyOrZero<4>(to, from, isInside && s.isScales[i]);
#if defined(MOE_MIN) || defined(MOE_ZERO)
    copyOrZero<4>(to + u32(sizeof(ActStage::scales)), from + cols / 8,
                  isInside && s.isScales[i]);
#endif
  }
  commitCopies();
}

/// The activations that a lane multiplies in one pass, in the layout of an mma's
/// fragments (g = lane / 4, c = lane % 4): the codes of row g, and the scales of
/// rows 2 c and 2 c + 1 with their sums over both halves of a unit.
struct Acts {
  u32 low[kUnits], high[kUnits];
  float scale[kUnits][2];
  u32 sums[kUnits][2];
};
MOE_DEVICE void loadActs(Acts &a, const ActStage &stage, const Lane &lane) {
  int lane32 = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kUnits; i += 2) {
    // Matrix k of ldmatrix is word k from the first of these units on.
    u32 at = sharedAddress(stage.codes) +
             16 * actPlace(lane32 % 8, 2 * i + lane32 / 8 % kActWords);
    u32 b[4];
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
        : "r"(at)
        : "memory");
#pragma unroll
    for (int k = 0; k < 2 && i + k < kUnits; ++k) {
      a.low[i + k] = b[2 * k];
      a.high[i + k] = b[2 * k + 1];
    }
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      a.scale[i][t] = stage.scales[2 * lane.c + t][i];
#if defined(MOE_MIN) || defined(MOE_ZERO)
      a.sums[i][t] = stage.sums[2 * lane.c + t][i];
#else
      a.sums[i][t] = 0;
#endif
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
  extern __shared__ uint4 memory[]; // kWarpBytes for each warp.
  Job job = findJob(a, blockIdx);
  if (job.count <= 0)
    return;
  int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  Lane lane = {int(threadIdx.x % 32) / 4, int(threadIdx.x) % 4,
               int(threadIdx.x % 32) / 4 % 4};
  i64 panels = (a.w.rows + 15) / 16;
  i64 panel = i64(blockIdx.x) * 2 + lane.g / 4;
  panel = panel < panels ? panel : panels - 1;
  ActSource source = actSource(a, job);
  u8 *own = (u8 *)memory + warp * kWarpBytes;
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
    fillActs(sharedAddress(own), source, a.w.cols, first, units);
    Weights weights;
    loadWeights(weights, w, first, units, lane);
#ifdef MOE_GATE
    Weights upWeights;
    loadWeights(upWeights, up, first, units, lane);
#endif
    waitCopies<0>();
    __syncwarp();
    Acts acts;
    loadActs(acts, *(const ActStage *)own, lane);
    __syncwarp(); // The next copies may come.
    multiply(sums, weights, acts, first, lane);
#ifdef MOE_GATE
    multiply(ups, upWeights, acts, first, lane);
#endif
  }
  storePart((float *)own, sums, job.count, lane);
#ifdef MOE_GATE
  constexpr int kUpAt = kRows * kPitch; // Behind the sums of the gate.
  storePart((float *)own + kUpAt, ups, job.count, lane);
#endif
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * job.count; i += blockDim.x) {
    i64 row = i64(blockIdx.x) * 32 + i % 32;
    if (row >= a.w.rows)
      continue;
    const float *part = (const float *)memory + i / 32 * kPitch + i % 32;
    float sum = 0, upSum = 0;
    for (int k = 0; k < warps; ++k, part += kWarpBytes / 4) {
      sum += part[0];
#ifdef MOE_GATE
      upSum += part[kUpAt];
#endif
    }
    finish(a, job.matrix, outRow(a, job, i / 32), row, sum, upSum);
  }
}
