//===- LaunchGemm.cpp - Launches of matrix products -----------------------===//

#include "kernels/cuda/Product.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace moek::cuda {

bool addFormat(KernelSpec &spec, Format format) {
  FormatInfo info = formatInfo(format);
  if (!info.hasKernels)
    return false;
  spec.entry += '_';
  for (char c : info.name)
    spec.entry += char(std::tolower(c));
  spec.define("MOE_FORMAT", int(format));
  spec.define("MOE_BLOCK_ELEMENTS", info.blockElements);
  spec.define("MOE_BLOCK_BYTES", info.blockBytes);
  return true;
}

const char *activationSuffix(Activation activation) {
  static constexpr const char *kSuffixes[kActivationCount] = {
      "", "_gelu", "_clamped", "_relu", "_gelu_erf"};
  return kSuffixes[size_t(activation)];
}

Product productOf(OpCode op, const void *args, const LaunchContext &context) {
  Product p;
  GemmArgs &g = p.args;
  g.step = context.step;
  p.maxRows = context.maxTokens;
  auto take = [&](const auto &a, const WeightView &w) {
    g.act = a.act;
    g.actStride = a.actStride;
    g.w = deviceView(w);
    g.out = a.out;
    g.outStride = a.outStride;
    p.format = w.format;
  };
  auto takeUp = [&](const WeightView &up) {
    p.isGate = true;
    g.up = deviceView(up);
    p.upFormat = up.format;
  };
  auto takeExperts = [&](const auto &a, const WeightView &w, bool perToken) {
    p.jobs = Jobs::Experts;
    g.offsets = a.offsets;
    g.slots = a.slots;
    g.experts = int(w.outer);
    p.sharers = std::max<int64_t>(w.outer, 1);
    g.topK = a.topK;
    g.actPerToken = perToken;
    p.maxRows = int64_t(context.maxTokens) * a.topK;
  };
  switch (op) {
  case OpCode::Linear: {
    const auto &a = *static_cast<const moek::LinearArgs *>(args);
    take(a, a.w);
    g.bias = a.bias;
    g.accumulate = a.accumulate;
    break;
  }
  case OpCode::GateUp: {
    const auto &a = *static_cast<const moek::GateUpArgs *>(args);
    take(a, a.gate);
    takeUp(a.up);
    g.bias = a.gateBias;
    g.upBias = a.upBias;
    p.activation = a.activation;
    break;
  }
  case OpCode::ExpertsLinear: {
    const auto &a = *static_cast<const moek::ExpertsLinearArgs *>(args);
    take(a, a.w);
    takeExperts(a, a.w, a.actPerToken);
    g.bias = a.bias;
    break;
  }
  case OpCode::ExpertsGateUp: {
    const auto &a = *static_cast<const moek::ExpertsGateUpArgs *>(args);
    take(a, a.gate);
    takeUp(a.up);
    takeExperts(a, a.gate, true);
    g.bias = a.gateBias;
    g.upBias = a.upBias;
    p.activation = a.activation;
    break;
  }
  case OpCode::HeadLinear: {
    const auto &a = *static_cast<const moek::HeadLinearArgs *>(args);
    p.jobs = Jobs::Heads;
    p.heads = a.w.outer;
    g.act = reinterpret_cast<const u8 *>(a.x);
    g.actStride = a.xStride * 4;
    g.w = deviceView(a.w);
    g.out = a.out;
    g.outStride = a.outStride;
    g.tail = a.tail;
    p.format = a.w.format;
    break;
  }
  default:
    break;
  }
  return p;
}

KernelSpec productSpec(const Product &p, const char *file, const char *name,
                       int64_t rows) {
  static constexpr const char *kJobNames[] = {"", "_heads", "_experts"};
  KernelSpec spec{std::string("kernels/cuda/") + file, name, {}};
  if (p.isGate) {
    spec.entry += std::string("_gate_up") + activationSuffix(p.activation);
    spec.define("MOE_GATE");
    spec.define("MOE_ACTIVATION", int(p.activation));
  }
  spec.entry += kJobNames[size_t(p.jobs)];
  spec.entry += "_" + std::to_string(rows);
  spec.define("MOE_JOBS", int(p.jobs));
  spec.define("MOE_ROWS", rows);
  return spec;
}

namespace {
/// Returns the size of a grid along groups of at most `rows` rows. A group of
/// an expert may begin at any slot, so that there are as many blocks as slots
/// (Jobs.cuh).
uint32_t groupsOf(const Product &p, int64_t rows) {
  return p.jobs == Jobs::Experts ? uint32_t(p.maxRows)
                                 : blocksFor(p.maxRows, rows);
}

constexpr int64_t kFloatWarps = 8; ///< Warps of a block of FloatGemm.cu.

/// Returns how many of a block's warps share a row of weights: as many as give
/// a multiprocessor 16 warps, while each still has a few loads of 32 lanes. A
/// block reads its rows of activations from L2; it shall not read more than
/// twice the bytes of its weights from there.
int64_t rowSplit(const Product &p, int64_t rows, int64_t warpRows,
                 const LaunchContext &context) {
  FormatInfo info = formatInfo(p.format);
  int64_t loads = p.args.w.cols / (32 * (p.format == Format::F32 ? 4 : 8));
  int64_t warps = blocksFor(p.args.w.rows, warpRows) *
                  (p.jobs == Jobs::Experts ? p.maxRows : p.heads);
  int64_t split = 1;
  while (split < kFloatWarps && split * 4 <= loads &&
         split * warps < 16 * context.multiprocessors &&
         kFloatWarps / (2 * split) * warpRows * info.blockBytes >=
             2 * rows * info.blockElements)
    split *= 2;
  return split;
}

std::vector<Launch> floatGemm(const Product &p, const LaunchContext &context) {
  int64_t rows = std::min(p.maxRows, kFewRows);
  // Rows of weights of a warp. With a gate, or with the addresses of each
  // slot's activations, four would spill.
  int64_t warpRows = 1;
  if (rows > 2 && formatInfo(p.format).blockElements == 1)
    warpRows = p.isGate || p.jobs == Jobs::Experts ? 2 : 4;
  int64_t split = rowSplit(p, rows, warpRows, context);
  KernelSpec spec = productSpec(p, "FloatGemm.cu", "gemm", rows);
  if (split > 1)
    spec.entry += "_s" + std::to_string(split);
  spec.define("MOE_WARP_ROWS", warpRows);
  spec.define("MOE_SPLIT", split);
  if (!addFormat(spec, p.format))
    return {};
  int64_t blockRows = kFloatWarps / split * warpRows;
  return {makeLaunch(std::move(spec),
                     {blocksFor(p.args.w.rows, blockRows), groupsOf(p, rows),
                      uint32_t(p.heads)},
                     256, 0, p.args, Fusion::wide(int(blockRows)))};
}

/// Returns how many warps a block has for `units` units, of which a warp takes
/// `each` at a time: the number with which the fewest warps are idle at the
/// end.
int64_t warpsFor(int64_t units, int64_t each, int64_t most) {
  int64_t steps = (units + each - 1) / each, best = 1, bestIdle = INT64_MAX;
  for (int64_t warps = 1; warps <= std::min(most, steps); ++warps) {
    int64_t rounds = (steps + warps - 1) / warps;
    // A warp that is idle at the end costs the work that it could have done.
    // Few warps cost more, because nothing hides their latencies.
    int64_t idle = rounds * warps - steps + (most - warps) * steps / (4 * most);
    if (idle <= bestIdle) {
      best = warps;
      bestIdle = idle;
    }
  }
  return best;
}

constexpr int64_t kMaxWarps = 8;

std::vector<Launch> gemvMma(const Product &p, const LaunchContext &context) {
  constexpr int64_t kRows = 8, kPitch = 36;
  // With fewer weight rows than 32, a block multiplies by an mma more than
  // once, but more multiprocessors have a block. With a gate, two quads would
  // spill, on sm_120 four as well.
  int64_t quads = 8;
  while (quads > (!p.isGate            ? 2
                  : context.arch < 120 ? 4
                                       : 8) &&
         p.jobs != Jobs::Experts &&
         2 * blocksFor(p.args.w.rows, 4 * quads) * p.heads <=
             context.multiprocessors)
    quads /= 2;
  const int64_t weightRows = 4 * quads, passUnits = quads == 8 ? 4 : 8;
  // A multiprocessor holds two blocks of eight warps, or four of four. Where
  // only the latter fit all at once, they avoid a second wave. Where each block
  // has a multiprocessor for itself, it has 16 warps.
  int64_t blocks = blocksFor(p.args.w.rows, weightRows) * p.heads;
  bool isAlone = p.jobs != Jobs::Experts && blocks <= context.multiprocessors;
  bool isWave = p.jobs != Jobs::Experts &&
                blocks > 2 * context.multiprocessors &&
                blocks <= 4 * context.multiprocessors;
  KernelSpec spec = productSpec(p, "GemvMma.cu", "gemv_mma", kRows);
  if (isAlone)
    spec.entry += "_q" + std::to_string(quads);
  spec.define("MOE_QUADS", quads);
  spec.define("MOE_THREADS", (isAlone ? 2 : 1) * kMaxWarps * 32);
  if (!addFormat(spec, p.format))
    return {};
  // With 16 warps, each quarter of a multiprocessor has four. The block ends
  // first if all warps have units, even if some have more than others.
  int64_t units = p.args.w.cols / 32;
  int64_t warps =
      isAlone ? std::min<int64_t>(2 * kMaxWarps, blocksFor(units, passUnits))
              : warpsFor(units, passUnits, isWave ? kMaxWarps / 2 : kMaxWarps);
  // A warp's shared memory: codes, scales and sums of eight rows of activations
  // for a pass, and at the end the warp's sums.
  int64_t warpBytes = std::max(kRows * passUnits * (32 + 4 + 4),
                               (p.isGate ? 2 : 1) * kRows * kPitch * 4);
  spec.define("MOE_WARP_BYTES", warpBytes);
  return {makeLaunch(std::move(spec),
                     {blocksFor(p.args.w.rows, weightRows), groupsOf(p, kRows),
                      uint32_t(p.heads)},
                     uint32_t(warps * 32), uint32_t(warps * warpBytes), p.args,
                     Fusion::wide(int(weightRows), /*anyThreads=*/true,
                                  /*sharedByWarp=*/true))};
}

std::vector<Launch> gemv(const Product &p, int64_t rows,
                         const LaunchContext &context) {
  // Blocks of 8 rows read every other sector, but those of 16 would leave
  // multiprocessors idle if a matrix has few rows.
  int64_t quads = 4, groups = groupsOf(p, rows);
  if (2 * blocksFor(p.args.w.rows, 16) * groups * p.heads <=
      context.multiprocessors)
    quads = 2;
  KernelSpec spec = productSpec(p, "Gemv.cu", "gemv", rows);
  if (quads < 4)
    spec.entry += "_q" + std::to_string(quads);
  spec.define("MOE_QUADS", quads);
  if (!addFormat(spec, p.format))
    return {};
  int64_t warps = warpsFor(p.args.w.cols / 32, 32 / quads, kMaxWarps);
  return {makeLaunch(std::move(spec),
                     {blocksFor(p.args.w.rows, 4 * quads), uint32_t(groups),
                      uint32_t(p.heads)},
                     uint32_t(warps * 32), 0, p.args,
                     Fusion::wide(int(4 * quads), /*anyThreads=*/true))};
}

/// What Products.cuh keeps for a unit of a weight row: as many floats as
/// MOE_SUMS and MOE_MINIMA, and `numbers` bytes for MOE_FOLDED and MOE_SHIFTS.
struct Scaling {
  int sums, minima, numbers;
};
template <class Block> constexpr Scaling scalingOfBlock() {
  if constexpr (requires { Block::kScales; }) {
    using Traits = BlockTraits<Block>;
    constexpr int kHalves = 32 / Traits::kSub;
    constexpr bool isShifted = Traits::kShiftCols != 0;
    // Scales of 16 columns are multiplied into quantised values if these are no
    // values of a grid and the scales are smaller than a byte.
    constexpr bool isFolded = kHalves == 2 && !Traits::kHasValues &&
                              Traits::kScaleCode != ScaleCode::Bytes;
    return {isFolded ? 1 : kHalves,
            Traits::kOffsetSub != 0 ? kHalves : isFolded && isShifted,
            (isFolded ? Traits::kZero ? 4 : 2 : 0) + isShifted};
  } else {
    return {};
  }
}
Scaling scalingOf(Format format) {
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    return scalingOfBlock<Block##name>();
#include "kernels/quant/Formats.def"
  default:
    return {};
  }
}

/// Returns the bytes of the two stages of Gemm.cu (struct Stage) and of its
/// Sources, for `acts` rows of activations and `weights` weight rows of each
/// matrix.
uint32_t gemmSharedBytes(const Product &p, int64_t acts, int64_t weights,
                         int64_t threads) {
  constexpr int64_t kStages = 2, kUnits = 2, kScaleLoads = 4;
  Rows16Shape shape = rows16Shape(p.format);
  Scaling scaling = scalingOf(p.format);
  // A row of activations has 32 quantised values and a scale of a unit, and
  // with minima a sum for each of them; two sums are followed by a gap.
  int64_t actBytes = 32 + 4 * std::max(2 * scaling.minima, 1);
  int64_t weightBytes = 4 * shape.codeBits +
                        4 * (scaling.sums + scaling.minima) + scaling.numbers;
  int64_t matrices = p.isGate ? 2 : 1;
  int64_t quads = matrices * kUnits * weights / 4;
  int64_t addresses =
      threads * (blocksFor(acts * 2 * kUnits, threads) + matrices) +
      acts * (scaling.minima ? 2 : 1) + quads;
  int64_t scales = 2 * acts + kScaleLoads * quads;
  constexpr int64_t kTile = 24; // Bytes of Sources::tileOfBlock and `end`.
  return uint32_t(kStages * kUnits *
                      (acts * actBytes + weights * weightBytes * matrices) +
                  8 * (addresses + scales) + kTile);
}

/// How a block of Gemm.cu divides its work.
struct GemmShape {
  int64_t rows, warpRows, warpCols, pairs, matrices, resident;
  /// Weight rows of a block, of each matrix.
  int64_t weightRows() const { return 32 * warpRows * pairs / matrices; }
  int64_t threads() const { return 32 * warpRows * warpCols; }
  int64_t tiles() const { return rows / warpCols / 8; }
};
GemmShape gemmShape(const Product &p, int arch) {
  GemmShape s{};
  // sm_75 has less shared memory. Half of a block's warps would be idle for
  // experts of 64 rows.
  bool isSmall =
      arch < 80 || (p.jobs == Jobs::Experts && rowsPerMatrix(p) < 128);
  s.rows = blockRowsOf(p, isSmall ? 64 : 128);
  s.matrices = p.isGate ? 2 : 1;
  // With 128 rows of activations, a warp multiplies 64 of them by 64 weight
  // rows: 128 sums of a lane. With fewer, a lane has half as many sums.
  bool isLarge = s.rows == 128;
  int64_t warpActs = p.isGate && !isLarge ? 32 : 64;
  s.warpCols = (s.rows + warpActs - 1) / warpActs;
  s.warpRows = p.isGate && s.rows == 64 ? 2 : 4;
  s.pairs = p.isGate || isLarge ? 2 : 1;
  // kBlocks of Gemm.cu.
  s.resident = isLarge ? 1 : s.pairs * s.tiles() > 4 ? 2 : 4;
  return s;
}
Tiles tilesOf(const Product &p, const GemmShape &s) {
  constexpr int64_t kStepCols = 128; // Columns of two stages.
  return {blocksFor(p.args.w.rows, s.weightRows()),
          prefillGroups(p, s.rows),
          p.args.w.cols,
          kStepCols,
          s.resident,
          s.matrices * s.weightRows() * s.rows * 4};
}
/// Returns how a product's last tiles are divided. Heads and experts are not:
/// their grids have other axes. On sm_120, formats of five bits with minima
/// have no register left for a part.
Tail tailOf(const Product &p, const GemmShape &s,
            const LaunchContext &context) {
  bool hasTail = p.jobs == Jobs::Tokens &&
                 !(context.arch >= 120 && rows16Shape(p.format).codeBits == 5 &&
                   scalingOf(p.format).minima > 0);
  return hasTail ? tailOf(tilesOf(p, s), context) : Tail{};
}
int64_t panelBytes(const Product &p, const LaunchContext &context) {
  GemmShape s = gemmShape(p, context.arch);
  return tailBytes(tailOf(p, s, context), tilesOf(p, s));
}

/// Whether Gemm.cu does a product that HalfGemm.cu does not. The mean number of
/// rows decides; an expert that has more takes several groups.
bool isManyRows(const Product &p, const LaunchContext &context) {
  return context.form.layout == Layout::Rows16 && rowsPerMatrix(p) > kFewRows;
}

std::vector<Launch> gemm(const Product &p, const LaunchContext &context) {
  GemmShape s = gemmShape(p, context.arch);
  KernelSpec spec = productSpec(p, "Gemm.cu", "gemm_mma", s.rows);
  if (!addFormat(spec, p.format))
    return {};
  spec.define("MOE_WARP_ROWS", s.warpRows);
  spec.define("MOE_WARP_COLS", s.warpCols);
  spec.define("MOE_PAIRS", s.pairs);
  Tiles tiles = tilesOf(p, s);
  Launch whole = makeLaunch(
      std::move(spec),
      {uint32_t(tiles.columns), uint32_t(tiles.groups), uint32_t(p.heads)},
      uint32_t(s.threads()),
      gemmSharedBytes(p, s.rows, s.weightRows(), s.threads()), p.args);
  if (Tail tail = tailOf(p, s, context); tail.isDivided())
    return tailLaunches<GemmTailArgs, GemmArgs>(whole, tail, tiles, s.tiles(),
                                                context.workspace);
  return {std::move(whole)};
}
} // namespace

static std::vector<Launch> wholeLaunches(const Product &p,
                                         const LaunchContext &context) {
  if (p.isGate && p.format != p.upFormat)
    return {};
  if (context.form.layout == Layout::Gguf)
    return isHalfGemm(p, context) ? halfGemm(p, context)
                                  : floatGemm(p, context);
  if (context.form.activation == Encoding::F32 || p.jobs == Jobs::Heads ||
      rows16Shape(p.format).codeBits % 16 == 0)
    return {};
  if (isHalfGemm(p, context))
    return halfGemm(p, context);
  int64_t rows = rowsPerMatrix(p);
  if (isManyRows(p, context))
    return gemm(p, context);
  return rows > 2 ? gemvMma(p, context) : gemv(p, rows, context);
}

//===----------------------------------------------------------------------===//
// Experts that are streamed
//===----------------------------------------------------------------------===//

int32_t streamedParts(int64_t bytes, int64_t experts) {
  constexpr int64_t kMostSlot = int64_t(256) << 20;
  int64_t parts = std::max<int64_t>(2, (bytes + kMostSlot - 1) / kMostSlot);
  return int32_t(std::clamp<int64_t>(parts, 1, std::max<int64_t>(experts, 1)));
}

int64_t slotBytes(int64_t matrixBytes, int64_t count) {
  constexpr int64_t kLine = 128; // Bytes of a cache line.
  return (matrixBytes * count + kLine - 1) / kLine * kLine;
}

namespace {
/// Returns the number of experts per part; the last part may have fewer.
int64_t partExperts(const Product &p, const LaunchContext &context) {
  return (p.args.experts + context.parts - 1) / context.parts;
}

/// The address may not be known yet.
template <class T> T *after(T *p, int64_t elements) {
  return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(p) +
                               uintptr_t(elements) * sizeof(T));
}

/// Describes copies of `count` experts from number `begin` on to `slot`.
Bring bringTo(const Product &p, int64_t begin, int64_t count, u8 *slot) {
  Bring b{};
  const Matrix *weights[] = {&p.args.w, &p.args.up};
  for (int i = 0; i < (p.isGate ? 2 : 1); ++i) {
    int64_t bytes = weights[i]->outerStride;
    b.from[i] = after(weights[i]->data, begin * bytes);
    b.to[i] = slot;
    b.matrixBytes[i] = bytes;
    slot = after(slot, slotBytes(bytes, count));
  }
  b.offsets = after(p.args.offsets, begin);
  b.count = int(count);
  return b;
}

/// Adds what a part copies to a launch with arguments `Args`.
template <class PartArgs, class Args>
void bringNext(Launch &launch, const Bring &next) {
  PartArgs args{};
  std::memcpy(static_cast<Args *>(&args), launch.args.data(), sizeof(Args));
  args.next = next;
  static_assert(sizeof(args) <= kMaxArgBytes);
  std::memcpy(launch.args.data(), &args, sizeof(args));
  launch.argBytes = sizeof(args);
}

/// Returns the copies of a part that no launch brings.
std::vector<HostCopy> copiesOf(const Bring &b) {
  std::vector<HostCopy> copies;
  for (int i = 0; i < 2; ++i)
    if (int64_t bytes = b.matrixBytes[i] * b.count)
      copies.push_back({b.from[i], b.to[i], bytes});
  return copies;
}

/// Returns the launches of a part. If launches copy, they also copy the part
/// `next`.
std::vector<Launch> partLaunches(const Product &whole, const Bring &here,
                                 int64_t begin, const Bring &next,
                                 const LaunchContext &context) {
  Product p = whole;
  p.args.w.data = here.to[0];
  p.args.up.data = here.to[1];
  p.args.offsets = here.offsets;
  p.args.experts = here.count;
  for (const float **bias : {&p.args.bias, &p.args.upBias})
    if (*bias)
      *bias = after(*bias, begin * p.args.w.rows);
  std::vector<Launch> launches = wholeLaunches(p, context);
  if (launches.empty())
    return {};
  bool isHalf = isHalfGemm(p, context);
  if (isHalf)
    launches.erase(
        launches.begin()); // Activations are narrowed once for all parts.
  if (!context.pinned) {
    launches.front().copies = copiesOf(here);
    launches.front().copiesFirst = begin == 0;
  }
  for (Launch &launch : launches) {
    launch.kernel.entry += "_part";
    launch.kernel.define("MOE_PART");
    launch.fusion = {}; // Nothing else may begin before its copies.
    if (!context.pinned)
      continue;
    launch.kernel.entry += "_bring";
    launch.kernel.define("MOE_BRING");
    launch.grid[2] = 2;
    if (isHalf)
      bringNext<HalfGemmPartArgs, HalfGemmArgs>(launch, next);
    else
      bringNext<GemmPartArgs, GemmArgs>(launch, next);
  }
  return launches;
}

std::vector<Launch> streamedLaunches(const Product &p,
                                     const LaunchContext &context) {
  if (p.jobs != Jobs::Experts)
    return {};
  int64_t each = partExperts(p, context);
  auto *memory = reinterpret_cast<u8 *>(context.workspace);
  int64_t slot = slotBytes(p.args.w.outerStride, each) +
                 (p.isGate ? slotBytes(p.args.up.outerStride, each) : 0);
  auto partAt = [&](int64_t part) {
    int64_t begin = std::min<int64_t>(part * each, p.args.experts);
    return bringTo(p, begin, std::min(each, p.args.experts - begin),
                   after(memory, part % 2 * slot));
  };
  // Narrowed activations lie behind the slots.
  LaunchContext behind = context;
  behind.workspace = after(context.workspace, 2 * slot);
  Bring here = partAt(0);
  std::vector<Launch> all;
  if (context.pinned)
    all.push_back(
        makeLaunch({"kernels/cuda/StreamExperts.cu", "stream_experts", {}},
                   {uint32_t(kBringBlocks)}, 256, 0,
                   StreamExpertsArgs{context.step, here}));
  if (isHalfGemm(p, behind)) {
    std::vector<Launch> whole = wholeLaunches(p, behind);
    if (whole.empty())
      return {};
    all.push_back(whole.front());
  }
  for (int64_t part = 0; part * each < p.args.experts; ++part) {
    Bring next = partAt(part + 1);
    std::vector<Launch> launches =
        partLaunches(p, here, part * each, next, behind);
    if (launches.empty())
      return {};
    all.insert(all.end(), launches.begin(), launches.end());
    here = next;
  }
  return all;
}
} // namespace

std::vector<Launch> gemmLaunches(OpCode op, const void *args,
                                 const LaunchContext &context) {
  Product p = productOf(op, args, context);
  return context.parts ? streamedLaunches(p, context)
                       : wholeLaunches(p, context);
}

int64_t gemmBytes(OpCode op, const void *args, const LaunchContext &context) {
  Product p = productOf(op, args, context);
  if (!context.parts)
    return isHalfGemm(p, context)   ? halfGemmBytes(p, context)
           : isManyRows(p, context) ? panelBytes(p, context)
                                    : 0;
  if (p.jobs != Jobs::Experts)
    return 0;
  int64_t each = partExperts(p, context);
  return 2 * (slotBytes(p.args.w.outerStride, each) +
              (p.isGate ? slotBytes(p.args.up.outerStride, each) : 0)) +
         (isHalfGemm(p, context) ? narrowBytes(p, context) : 0);
}

} // namespace moek::cuda
