// Products of quantised weights with three to eight rows: decode of several
// sequences. The rows are the columns of one mma, and every weight is read from
// memory once. (For fewer rows Gemv.cu is faster.)
//
// A block has two panels, 32 weight rows. Its warps divide the columns, and
// their partial sums are added in the order of warps. Of a matrix of few rows,
// for which there would be too few blocks, a block has 16 or 8 weight rows
// (MOE_QUADS times 4); then lanes that would have the other rows of an mma have
// the same rows of other units. Such an mma is multiplied with the activations
// of each of these units, and a lane takes the result of its own. A lane has
// kUnits units of weights in flight at a time, as many as registers hold: with
// eight warps of 4 units of Q4_K a block requests 16 KB at once, where
// bandwidth times latency is 5 KB per multiprocessor on a 4090 and 15 on an
// H100.
//
// An mma costs as much for one row as for eight, and far less than reading the
// weights: 32 columns of 32 weight rows are 512 bytes of 4-bit codes, two mma
// and some 80 instructions of unpacking and scaling, or 20 cycles of a
// multiprocessor, which gets 14 bytes per cycle on an H100 and three on a 4090.

// Sixteen columns of eight rows of activations are in eight lines of memory,
// which L1 looks up one after the other: loaded by each lane as an mma needs
// them, they would take three times as long as the weights. So a warp copies
// the activations of a pass to its own shared memory in whole lines, while its
// weights are on their way, and reads them from there by ldmatrix.

#include "kernels/cuda/A8.cuh"
#include "kernels/cuda/AsyncCopy.cuh"
#include "kernels/cuda/Jobs.cuh"
#include "kernels/cuda/Rows16.cuh"

/// Units whose weight rows are in one mma: with 4 MOE_QUADS rows in a block,
/// the 32 rows of two mma are those of 8 / MOE_QUADS units.
constexpr int kShare = 8 / MOE_QUADS;
// Units that a lane has of each pass: as many as registers hold.
#if (defined(MOE_GATE) &&                                                      \
     (MOE_QUADS < 8 || (defined(MOE_DIGITS) && MOE_BITS < 4) ||                \
      MOE_BITS == 3 || MOE_BITS == 6)) ||                                      \
    (MOE_QUADS == 2 && (defined(MOE_HALVES) || __CUDA_ARCH__ >= 1200))
constexpr int kUnits = 1;
#elif defined(MOE_GATE) || MOE_BITS > 5 || defined(MOE_HALVES) ||              \
    MOE_QUADS == 2 ||                                                          \
    (MOE_QUADS == 4 && (MOE_BITS > 4 || __CUDA_ARCH__ >= 1200))
constexpr int kUnits = 2;
#else
constexpr int kUnits = 4;
#endif
/// Units of a warp's pass, which are at most the eight of a super-block.
constexpr int kPassUnits = kUnits * kShare;
static_assert(kPassUnits <= 8);
/// Whether the units of a pass are in one block; else each unit finds its own.
constexpr bool kIsInBlock = kTileUnits >= kPassUnits;
constexpr int kBlockRows = 4 * MOE_QUADS; ///< Weight rows of a block.
/// Threads of the largest block. One that has a multiprocessor for itself has
/// 512, as two others together.
constexpr int kThreads = MOE_THREADS;
/// Floats from the sums of a row of activations to those of the next one in
/// shared memory: 32 weight rows and four more, so that lanes with different
/// rows of activations write to different banks.
constexpr int kPitch = 36;
constexpr int kRows = 8; ///< Rows of activations in a block.
#ifdef MOE_GATE
constexpr int kMatrices = 2;
#else
constexpr int kMatrices = 1;
#endif
/// Words of sixteen bytes of a row's quantised activations in a pass, and how
/// many of these words, and of its scales, a lane copies.
constexpr int kActWords = 2 * kPassUnits;
constexpr int kCodeCopies = (kRows * kActWords + 31) / 32;
constexpr int kScaleCopies = (kRows * kPassUnits + 31) / 32;

struct Lane {
  /// c: lane % 4; quad: the lane has rows 4 quad .. 4 quad + 3 of a panel.
  int c, quad;
  int row;   ///< The first of the lane's four rows in the block.
  int share; ///< Index of the lane's unit among the kShare units of an mma.
};

/// The weights of a matrix that a lane reads in one pass.
struct Weights {
  Codes codes[kUnits];
  UnitScales unit[kUnits];
  BlockScales block[kIsInBlock ? 1 : kUnits];
};
/// The activations of that pass, in a warp's shared memory. The sixteen bytes
/// with number i of row t are at actPlace(t, i), so that ldmatrix reads those
/// of eight rows from different banks. Beyond the last unit and row are zeros.
struct ActStage {
  uint4 codes[kRows * kActWords];
  float scales[kRows][kPassUnits];
  u32 sums[kRows][kPassUnits]; ///< Sums in the layout of a8Sums().
};
MOE_DEVICE int actPlace(int t, int i) {
  constexpr int kRowsOfLine = kActWords < 8 ? 8 / kActWords : 1;
  return t * kActWords + (i ^ t / kRowsOfLine % kActWords);
}
/// Bytes of a warp's shared memory: its activations, then its sums.
constexpr int kWarpBytes = MOE_WARP_BYTES;
static_assert(sizeof(ActStage) <= kWarpBytes &&
              kMatrices * kRows * kPitch * 4 <= kWarpBytes);

/// Returns `p`, hiding from the compiler how it was computed. Otherwise it
/// would compute each address that follows from `p` anew from all parts of `p`,
/// in twice as many instructions.
MOE_DEVICE const u8 *settled(const u8 *p) {
  asm("" : "+l"(p));
  return p;
}

/// Begins the loads of the lane's units of a pass, which begins at unit
/// `first`, a multiple of kPassUnits, of its rows' `panel`. Beyond the last
/// unit, the last one is read again; its activations are zeros.
MOE_DEVICE void loadWeights(Weights &w, const u8 *panel, int first, int units,
                            const Lane &lane) {
  const int own = first + lane.share;
  const u8 *tile, *codes;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int unit =
        kIsInBlock ? own + i * kShare : min(own + i * kShare, units - 1);
    if (!kIsInBlock || i == 0) {
      tile = settled(panel + i64(unit / kTileUnits) * kTileBytes);
      codes = settled(tile + kScalePart + unit % kTileUnits * kUnitBytes +
                      16 * lane.quad);
    } else {
      codes += kShare * kUnitBytes;
    }
    const int u =
        kIsInBlock ? own % kTileUnits + i * kShare : unit % kTileUnits;
    loadCodes(w.codes[i], codes, lane.c);
    loadScales(w.unit[i], tile, u, lane.quad);
#ifdef MOE_SHIFTS
    w.codes[i].shifts = w.unit[i].shifts;
#endif
    if (!kIsInBlock || i == 0)
      loadScales(w.block[kIsInBlock ? 0 : i], tile, lane.quad);
  }
}

/// What a lane copies of each pass: words of sixteen bytes of codes, and of
/// four bytes of scales and of sums. Copies i and i + 1 are of rows a constant
/// number apart. Of rows that the job does not have, nothing is read.
struct ActSource {
  const u8 *codes[kCodeCopies], *scales[kScaleCopies];
  /// False: zeros are stored instead.
  bool isCodes[kCodeCopies], isScales[kScaleCopies];
};
MOE_DEVICE ActSource actSource(const GemmArgs &a, const Job &job) {
  ActSource s;
  int lane = threadIdx.x % 32;
  // Copy i is of row `first` + i * `step`, and in it from byte `at` on.
  auto find = [&](const u8 *&p, bool &isRow, const u8 *before, int i, int first,
                  int step, i64 at) {
    int t = first + i * step;
    isRow = t < job.count;
#if MOE_JOBS == MOE_EXPERTS
    p = settled(actRow(a, job, isRow ? t : 0) + at);
#else
    p = settled(i == 0 ? actRow(a, job, t) + at : before + step * a.actStride);
#endif
  };
#pragma unroll
  for (int i = 0; i < kCodeCopies; ++i)
    find(s.codes[i], s.isCodes[i], i ? s.codes[i - 1] : nullptr, i,
         lane / kActWords, 32 / kActWords, lane % kActWords * 16);
#pragma unroll
  for (int i = 0; i < kScaleCopies; ++i)
    find(s.scales[i], s.isScales[i], i ? s.scales[i - 1] : nullptr, i,
         lane / kPassUnits, 32 / kPassUnits, a.w.cols + lane % kPassUnits * 4);
  return s;
}
/// Begins the copies of the activations of a pass from unit `first` on to the
/// ActStage at the shared address `stage`.
MOE_DEVICE void fillActs(u32 stage, const ActSource &s, i64 cols, int first,
                         int units) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kCodeCopies; ++i) {
    int word = lane + 32 * i, w = word % kActWords;
    bool isInside = kIsInBlock || first + w / 2 < units;
    if (kRows * kActWords % 32 == 0 || word < kRows * kActWords)
      copyOrZero<16>(stage + 16 * actPlace(word / kActWords, w),
                     s.codes[i] + 32 * i64(first), isInside && s.isCodes[i]);
  }
  bool isInside = kIsInBlock || first + lane % kPassUnits < units;
#pragma unroll
  for (int i = 0; i < kScaleCopies; ++i) {
    int at = lane + 32 * i;
    if (kRows * kPassUnits % 32 != 0 && at >= kRows * kPassUnits)
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

/// Operand B of kCodeUnits units, which is row g = lane / 4 of the activations:
/// b0 in `low`, b1 in `high`. These are the units that share an mma, or two
/// units.
constexpr int kCodeUnits = kShare > 1 ? kShare : 2;
struct ActCodes {
  u32 low[kCodeUnits], high[kCodeUnits];
};
/// Loads them from unit `first` of the pass on.
MOE_DEVICE void loadCodes(ActCodes &a, const ActStage &stage, int first) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kCodeUnits; i += 2) {
    // Matrix k of ldmatrix is word k of the rows, counted from the first of
    // these two units.
    u32 at = sharedAddress(stage.codes) +
             16 * actPlace(lane % 8, 2 * (first + i) + lane / 8 % kActWords);
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(a.low[i]), "=r"(a.high[i]), "=r"(a.low[i + 1]),
          "=r"(a.high[i + 1])
        : "r"(at)
        : "memory");
  }
}

/// c = start + products of weight rows u (row g of the mma) and v (row g + 8)
/// with the activations of the lane's unit. The mma is executed for each of the
/// kShare units from number `first` of `a` on, and a lane keeps the result of
/// its own unit.
MOE_DEVICE void products(int (&c)[4], const RowCodes &u, const RowCodes &v,
                         const ActCodes &a, int first, int half,
                         const int (&start)[2], const Lane &lane) {
#pragma unroll
  for (int s = 0; s < kShare; ++s) {
    u32 low = a.low[first + s], high = a.high[first + s];
    int of[4];
#ifdef MOE_HALVES
    mma16(of, half ? u.high : u.low, half ? v.high : v.low, half ? high : low,
          start);
#else
    mma32(of, u.low, v.low, u.high, v.high, low, high, start);
#endif
#pragma unroll
    for (int k = 0; k < 4; ++k)
      c[k] = s == 0 || lane.share == s ? of[k] : c[k];
  }
}

/// sums[row][t] += weights of the lane's row times row 2 c + t of activations,
/// for the lane's units of a pass. These are sums over the columns of its units
/// only: lanes that differ in `share`, and other warps, have other units.
MOE_DEVICE void multiply(float (&sums)[4][2], const Weights &w,
                         const ActStage &stage, int first, const Lane &lane) {
  ActCodes acts;
  BlockFloats block;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    if (!kIsInBlock || i == 0)
      block = floatsOf(w.block[i]);
    if (kShare > 1 || i % 2 == 0)
      loadCodes(acts, stage, i * kShare);
    // The scales and sums of rows 2 c and 2 c + 1 of activations.
    float scale[2];
    u32 actSums[2] = {};
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      scale[t] = stage.scales[2 * lane.c + t][i * kShare + lane.share];
#if defined(MOE_MIN) || defined(MOE_ZERO)
      actSums[t] = stage.sums[2 * lane.c + t][i * kShare + lane.share];
#endif
    }
    Factors f;
    decode(f, block, w.unit[i], (first + i * kShare + lane.share) % kTileUnits);
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
        int both = kHalves == 1 ? firstSum(actSums[t]) + secondSum(actSums[t])
                   : half == 0  ? firstSum(actSums[t])
                                : secondSum(actSums[t]);
        start[t] = kMagicBits - kZero * both;
#ifdef MOE_MIN
        sum[t] = scale[t] * float(both);
#endif
      }
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        int c[4];
        products(c, rows[2 * pair], rows[2 * pair + 1], acts,
                 kShare > 1 ? 0 : i % 2, half, start, lane);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          int r = 2 * pair + k / 2, t = k % 2;
          float product = __int_as_float(c[k]) - kMagic;
          sums[r][t] = fmaf(product, f.scale[half][r] * scale[t], sums[r][t]);
#ifdef MOE_MIN
          sums[r][t] = fmaf(f.min[half][r], sum[t], sums[r][t]);
#endif
        }
      }
    }
  }
}

/// Adds the sums of lanes that have the same rows of other units, and writes
/// the warp's sums to shared memory as [row of activations][weight row].
MOE_DEVICE void storePart(float *part, float (&sums)[4][2], int count,
                          const Lane &lane) {
#pragma unroll
  for (int k = 4 * MOE_QUADS; k < 32; k *= 2)
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int t = 0; t < 2; ++t)
        sums[r][t] += __shfl_xor_sync(kAllLanes, sums[r][t], k);
#pragma unroll
  for (int t = 0; t < 2; ++t)
    if (lane.share == 0 && 2 * lane.c + t < count)
      *(float4 *)(part + (2 * lane.c + t) * kPitch + lane.row) =
          make_float4(sums[0][t], sums[1][t], sums[2][t], sums[3][t]);
}

MOE_KERNEL(kThreads, 512 / kThreads, MOE_GEMM_ARGS) {
  MOE_BRING_NEXT(a)
  extern __shared__ uint4 memory[]; // kWarpBytes for each warp
  Job job = findJob(a, blockIdx);
#if MOE_JOBS == MOE_EXPERTS || defined(MOE_PIECE)
  // A kernel of its own, for tokens, loads weights before it knows the step.
  if (job.count <= 0)
    return;
#endif
  // Numbers of 32 bits without a sign: fewer instructions to the first load.
  int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  u32 g = threadIdx.x % 32 / 4, own = 4 * (g % MOE_QUADS);
  u32 firstRow = blockIdx.x * kBlockRows;
  Lane lane = {int(threadIdx.x % 4), int((firstRow + own) / 4 % 4), int(own),
               int(g / MOE_QUADS)};
  u32 panels = (u32(a.w.rows) + 15) / 16;
  u32 panel = min((firstRow + own) / 16, panels - 1);
  u8 *memoryOfWarp = (u8 *)memory + warp * kWarpBytes;
  const u8 *w = settled(a.w.data + job.matrix * a.w.outerStride +
                        u64(panel) * u32(16 * a.w.rowStride));
  int units = int(u32(a.w.cols) / 32);
  float sums[4][2] = {};
#ifdef MOE_GATE
  const u8 *up = settled(a.up.data + job.matrix * a.up.outerStride +
                         u64(panel) * u32(16 * a.up.rowStride));
  float ups[4][2] = {};
#endif
  int first = warp * kPassUnits;
  // A warp that a fused launch has beyond those of this one has no units.
  const int begin = first < units ? first : 0;
  Weights weights;
  loadWeights(weights, w, begin, units, lane);
#ifdef MOE_GATE
  Weights upWeights;
  loadWeights(upWeights, up, begin, units, lane);
#endif
  ActSource source = actSource(a, job);
  while (first < units) {
    fillActs(sharedAddress(memoryOfWarp), source, a.w.cols, first, units);
    waitCopies<0>();
    __syncwarp();
    const ActStage &stage = *(const ActStage *)memoryOfWarp;
    multiply(sums, weights, stage, first, lane);
#ifdef MOE_GATE
    multiply(ups, upWeights, stage, first, lane);
#endif
    __syncwarp(); // The next copies may overwrite the stage.
    first += warps * kPassUnits;
    if (first >= units)
      break;
    loadWeights(weights, w, first, units, lane);
#ifdef MOE_GATE
    loadWeights(upWeights, up, first, units, lane);
#endif
  }
  storePart((float *)memoryOfWarp, sums, job.count, lane);
#ifdef MOE_GATE
  constexpr int kUpAt = kRows * kPitch; // Sums of up follow those of the gate.
  storePart((float *)memoryOfWarp + kUpAt, ups, job.count, lane);
#endif
  __syncthreads();
  for (int i = threadIdx.x; i < kBlockRows * job.count; i += blockDim.x) {
    int r = i % kBlockRows, t = i / kBlockRows;
    i64 row = i64(firstRow) + r;
    if (row >= a.w.rows)
      continue;
    const float *part = (const float *)memory + t * kPitch + r;
    float sum = 0, upSum = 0;
    for (int k = 0; k < warps; ++k, part += kWarpBytes / 4) {
      sum += part[0];
#ifdef MOE_GATE
      upSum += part[kUpAt];
#endif
    }
    finish(a, job.matrix, outRow(a, job, t), row, sum, upSum);
  }
}
