//===- LaunchAttention.cpp - Launches of attention ------------------------===//

#include "kernels/KvCache.h"
#include "kernels/cuda/LaunchGemm.h"
#include "kernels/cuda/Launches.h"
#include "kernels/cuda/MakeLaunch.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace moek::cuda {

namespace {
/// Makes a kernel read queries and write results two columns at a time
/// (MOE_PAIRS), if all of their rows are aligned to eight bytes.
void addPairs(KernelSpec &spec, const float *q, int64_t qStride,
              const float *out, int64_t outStride, int64_t key, int64_t value) {
  auto addresses =
      reinterpret_cast<uintptr_t>(q) | reinterpret_cast<uintptr_t>(out);
  if (addresses % 8 == 0 && (qStride | outStride | key | value) % 2 == 0) {
    spec.entry += "_pairs";
    spec.define("MOE_PAIRS");
  }
}
} // namespace

std::vector<Launch> launches(const moek::LatentAttentionArgs &a,
                             const LaunchContext &context) {
  LatentAttentionArgs args = deviceArgs(a, context.step);
  int64_t width = a.latent + a.rope;
  if (hasLatentMma(a.kv, a.latent, width, /*isListed=*/false, context)) {
    uint32_t teams = latentMmaTeams(a.heads);
    KernelSpec spec{{}, "latent_mma", {}};
    addLatentMma(spec, a.latent, width, teams);
    addKv(spec, a.kv.type);
    addPairs(spec, a.q, a.qStride, a.out, a.outStride, width, a.latent);
    return {makeLaunch(std::move(spec),
                       {uint32_t(context.maxTokens), uint32_t(a.splits),
                        blocksFor(a.heads, teams * kLatentMmaHeads)},
                       teams * kLatentMmaThreads,
                       latentMmaBytes(a.kv.type, width, teams), args,
                       kLatentMmaFusion)};
  }
  constexpr uint32_t kHeads = 4, kRows = 8;
  KernelSpec spec{"kernels/cuda/LatentAttention.cu", "latent_attention", {}};
  addKv(spec, a.kv.type);
  return {makeLaunch(std::move(spec),
                     {uint32_t(context.maxTokens), uint32_t(a.splits),
                      blocksFor(a.heads, kHeads)},
                     128,
                     floatBytes((kHeads + kRows) * width + kHeads * a.latent),
                     args, Fusion::wide())};
}

namespace {
/// A lane of CombineHeads.cu loads up to sixteen bytes at once, if all rows are
/// aligned.
int64_t combinedAtOnce(int64_t value, bool isAligned) {
  return !isAligned || value % 64 ? 1 : value % 128 ? 2 : 4;
}
} // namespace

std::vector<Launch> launches(const moek::CombineSplitsArgs &a,
                             const LaunchContext &context) {
  // Grouped heads have less to combine than a latent's 2 KB a head and split.
  constexpr int64_t kWide = 256;
  bool isAligned =
      reinterpret_cast<uintptr_t>(a.x) % 16 == 0 && a.xStride % 4 == 0;
  if (a.latent <= kWide) {
    constexpr uint32_t kWarps = 4;
    int64_t columns = combinedAtOnce(a.latent, isAligned);
    return {makeLaunch({"kernels/cuda/CombineHeads.cu",
                        "combine_heads_" + std::to_string(a.latent) + "_" +
                            std::to_string(columns),
                        {{"MOE_VALUE", a.latent}, {"MOE_COLUMNS", columns}}},
                       {uint32_t(context.maxTokens), blocksFor(a.heads, kWarps),
                        blocksFor(a.latent, 32 * columns)},
                       kWarps * 32, 0, deviceArgs(a, context.step),
                       Fusion::warpsOfHeads(a.heads))};
  }
  int64_t columns = combinedColumns(a.heads, a.latent, isAligned);
  return {makeLaunch(
      combineSpec("kernels/cuda/CombineSplits.cu", "combine_splits", columns),
      {uint32_t(context.maxTokens), uint32_t(a.heads),
       blocksFor(a.latent, columns)},
      kThreads, 0, deviceArgs(a, context.step), Fusion::wide())};
}

std::vector<Launch> launches(const moek::KvStoreArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/KvStore.cu", "kv_store", {}};
  addKv(spec, a.kv.type);
  return {makeLaunch(std::move(spec), {uint32_t(context.maxTokens)}, kThreads,
                     uint32_t(a.heads) * 4, deviceArgs(a, context.step),
                     Fusion::blocks())};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// The form in which FlashAttention.cu is compiled for a shape.
struct FlashForm {
  /// A bound of static shared memory, and of the bytes of tiles in decode: more
  /// are not worthwhile, because memory does not need so many in flight.
  static constexpr int64_t kStaticBytes = 1024, kMostAhead = 128 * 1024;

  bool isPrefill;
  bool isWide; ///< Keys and values have more than 384 columns together.
  int warps, stages;
  int64_t keys;         ///< Keys of a tile.
  int64_t tall = 1;     ///< A warp has 16 * tall queries.
  int64_t held = 16;    ///< Steps of 16 query columns that stay in registers.
  int64_t queries = 16; ///< Queries of a block in decode.
  uint32_t sharedBytes;
  bool isSmall = false;     ///< A thread needs at most 168 registers.
  bool isWarpgroup = false; ///< Uses FlashWarpgroup.cuh.
  bool isInTeams = false;   ///< Uses FlashTeams.cuh.
  int64_t mostParts = 1; ///< The most parts of a tile's keys (FlashParts.cuh).

  /// `group` is the number of query heads that share a KV head, of which a
  /// launch has `kvHeads`.
  FlashForm(KvType type, int64_t key, int64_t value, int64_t group,
            int64_t kvHeads, bool isDivisible, const LaunchContext &context) {
    bool hasCodes = type == KvType::Q8_0;
    int64_t columns = (kvBlocks(key) + kvBlocks(value)) * kKvBlock;
    // A thread has 255 registers, of which sums and queries take most. Two
    // numbers of 256 columns leave none to convert codes with.
    isWide = columns > 384;
    int64_t rowBytes = kvRowBytes(type, columns);
    // A few tokens, or one or two of each sequence, are decoded.
    isPrefill = context.maxTokens > 32 &&
                context.maxTokens > 2 * context.maxSequences &&
                !(isWide && hasCodes);
    if (isPrefill) {
      isWarpgroup = context.arch == 90 && !hasCodes && value % 64 == 0 &&
                    value <= 128 && key <= 192;
      // Three small blocks hide each other's latencies; sm_90 has the shared
      // memory for one that loads keys for twice as many queries.
      bool isLarge = context.arch >= 90 && context.arch < 110;
      warps = isLarge ? 8 : 4;
      stages = isWarpgroup ? 3 : 2;
      keys = isWarpgroup                 ? (key <= 128 ? 128 : 64)
             : isLarge && columns <= 256 ? 64
                                         : 32;
      // Twice the queries in a block read keys and values half as often, and
      // take 1.5 times as long: where they are no more waves for that.
      if (isWarpgroup && key <= 128) {
        auto wavesOf = [&](int64_t rows) {
          return blocksFor(blocksFor(context.maxTokens * group, rows) * kvHeads,
                           context.multiprocessors);
        };
        if (3 * wavesOf(256) <= 2 * wavesOf(128)) {
          tall = 2;
          held = 2;
          stages = 4;
          keys = 64;
        }
      }
      if (isDivisible && !isWide && context.maxPositions > 2 * kPartRows &&
          !(isWarpgroup && tall == 2))
        mostParts = 8;
      // On an A100, tensor cores are as fast as loads of their operands: a warp
      // has twice the queries, for which it loads keys and values once. Two
      // blocks of four warps fit, or one of two teams.
      if ((context.arch == 80 || context.arch == 87) && key <= 128 &&
          value <= 128) {
        tall = 2;
        held = 0;
        isInTeams = !hasCodes;
        warps = isInTeams ? 8 : 4;
        stages = isInTeams ? 3 : 2;
      }
      if (isWide) // Sums take the registers that would hold the other steps.
        held = 10;
      isSmall = key <= 128 && value <= 128 && !hasCodes && tall == 1;
      int64_t loaded = std::max<int64_t>((key + 15) / 16 - held, 0);
      if (isWarpgroup) // Queries in shared memory have the layout of keys.
        loaded = tall == 2 ? kvBlocks(key) * 4 : 0;
      sharedBytes =
          uint32_t(stages * keys * rowBytes + warps * tall * loaded * 512);
      return;
    }
    // Where shared memory suffices, a block has eight warps, two for each
    // scheduler of a multiprocessor, and each warp loads one tile or more.
    keys = 16;
    // Eight queries of a sequence multiply half as often as sixteen. More than
    // eight read keys twice then.
    if (context.maxTokens * group <= 8 * context.maxSequences)
      queries = 8;
    int64_t unit = hasCodes ? 32 : 16;
    int64_t sums = queries * ((value + unit - 1) / unit * unit + 4) * 4;
    int64_t queryBytes = (key + 15) / 16 * queries / 8 * 512;
    int64_t most = maxSharedBytes(context.arch) - queryBytes - kStaticBytes;
    warps = 8;
    while (warps > 2 && warps * std::max(keys * rowBytes, sums) > most)
      warps /= 2;
    stages = int(std::clamp<int64_t>(
        std::min(most, kMostAhead) / (warps * keys * rowBytes), 1, 4));
    sharedBytes =
        uint32_t(warps * std::max(stages * keys * rowBytes, sums) + queryBytes);
  }
  /// Blocks of a multiprocessor, as FlashAttention.cu asks for.
  int resident() const { return warps > 4 ? 1 : isSmall ? 3 : 2; }
  uint32_t rows() const {
    return uint32_t(isPrefill ? 16 * tall * warps : queries);
  }
  KernelSpec spec(KvType type, int64_t key, int64_t value,
                  int64_t group) const {
    KernelSpec spec{"kernels/cuda/FlashAttention.cu",
                    (isWarpgroup ? "flash_warpgroup"
                     : isPrefill ? "flash_prefill"
                                 : "flash_decode") +
                        std::to_string(rows()) + "_" + std::to_string(group) +
                        "x" + std::to_string(key) + "_" + std::to_string(value),
                    {{"MOE_KEY", key},
                     {"MOE_VALUE", value},
                     {"MOE_GROUP", group},
                     {"MOE_WARPS", warps},
                     {"MOE_STAGES", stages}}};
    if (isPrefill) {
      spec.define("MOE_PREFILL");
      spec.define("MOE_KEYS", keys);
      spec.define("MOE_TALL", tall);
      spec.define("MOE_HELD", held);
      if (isInTeams)
        spec.define("MOE_TEAMS");
      if (isWarpgroup)
        spec.define(std::string(kWarpgroup));
    } else {
      spec.define("MOE_QUERIES", queries);
    }
    addKv(spec, type);
    return spec;
  }
};

/// How the tiles of a prompt's attention are divided (FlashParts.cuh): those of
/// the KV heads from `whole` on, into `count` parts; with one part not at all.
struct Parts {
  int64_t whole = 0, count = 1;
  int64_t tiles = 0; ///< Tiles of queries for each KV head.
};

/// Returns the bytes of the sums that blocks store for each other. Of a tile of
/// n parts, each of n - 1 pairs of sums has room for both.
int64_t partBytes(const FlashForm &form, const Parts &parts, int64_t kvHeads,
                  int64_t value) {
  // Columns are a multiple of 16, or with codes of 32. With each sixteen
  // queries are the maxima and sums of weights, in four floats of a lane.
  int64_t floats = form.rows() * ((value + 31) / 32 * 32 + 8);
  return 2 * (parts.count - 1) * (kvHeads - parts.whole) * parts.tiles *
         floats * 4;
}

/// Returns the division for `kvHeads` KV heads, from shapes alone.
Parts partsOf(const FlashForm &form, int64_t group, int64_t kvHeads,
              int64_t value, const LaunchContext &context) {
  constexpr int64_t kMostBytes = int64_t(128) << 20;
  /// What a further part of a tile costs, as a share of the tile's time, by
  /// the simulated clock: its sums are stored, and another block adds them.
  constexpr double kPartCost = 0.035;
  constexpr double kWorth = 0.95;
  Parts best;
  // Tiles per KV head: a tile has rows with one division into parts, of which a
  // sequence of n rows meets at most n / kPartRows + 2.
  best.tiles = tilesFor(context, group, form.rows()) +
               context.maxTokens / kPartRows + context.maxSequences;
  best.whole = kvHeads;
  if (form.mostParts == 1)
    return best;
  const auto multiprocessors = double(context.multiprocessors);
  const auto resident = double(form.resident());
  const double each = blocksFor(context.maxTokens * group, form.rows());
  // The time of a multiprocessor for `work`, in times of a tile, with `blocks`
  // blocks at once. A block alone does not hide its latency.
  auto timeOf = [&](double blocks, double work) {
    return blocks < std::min(resident, 2.0) ? 1.6 * work : work;
  };
  auto costOf = [&](int64_t whole, int64_t count) {
    double tiles = double(whole) * each, part = 1 / double(count);
    double parts = double((kvHeads - whole) * count) * each;
    double added = kPartCost * parts / multiprocessors;
    double most = std::ceil(tiles / multiprocessors);
    double least = timeOf(most, most);
    if (count == 1 || most > resident)
      return added + least;
    if (most == 0) { // Without whole tiles: full rounds of parts, and the rest.
      double rounds = std::floor(parts / multiprocessors / resident);
      double rest = std::ceil(parts / multiprocessors - rounds * resident);
      return added + rounds * resident * part + timeOf(rest, rest * part);
    }
    // Parts in the places that tiles leave. If the tiles take longer, they
    // are alone then.
    double free = resident - most;
    double work = (tiles + parts * part) / multiprocessors - most;
    return added +
           std::max(least, work < free
                               ? work * resident / free +
                                     timeOf(most, most * (1 - work / free))
                               : most + work + timeOf(1, part));
  };
  double least = kWorth * costOf(kvHeads, 1);
  for (int64_t whole = 0; whole < kvHeads; ++whole)
    for (int64_t count = 2; count <= form.mostParts; ++count) {
      Parts parts{whole, count, best.tiles};
      if ((kvHeads - whole) * parts.tiles <= kTickets &&
          partBytes(form, parts, kvHeads, value) <= kMostBytes &&
          costOf(whole, count) < least) {
        least = costOf(whole, count);
        best = parts;
      }
    }
  return best;
}

/// The launch of a prompt's attention with some heads in parts.
Launch partLaunch(KernelSpec spec, const FlashForm &form, const Parts &parts,
                  const AttentionArgs &attention,
                  const LaunchContext &context) {
  int64_t divided = attention.kvHeads - parts.whole;
  spec.entry += "_parts" + std::to_string(parts.count);
  spec.define("MOE_PARTS", parts.count);
  AttentionPartsArgs args{};
  static_cast<AttentionArgs &>(args) = attention;
  args.parts = reinterpret_cast<float *>(context.workspace);
  if (context.step)
    args.tickets = const_cast<u32 *>(context.step->tickets);
  args.wholeHeads = int(parts.whole);
  args.tiles = int(parts.tiles);
  return makeLaunch(
      std::move(spec),
      {uint32_t(parts.tiles * (parts.whole + divided * parts.count))},
      uint32_t(form.warps) * 32, form.sharedBytes, args);
}

/// Returns whether FlashAttention.cu can read a cache: it needs the tensor
/// cores of sm_80, groups of sixteen rows that follow each other, copied
/// sixteen bytes at a time, and has registers for 256 columns. Exact floats
/// stay floats.
bool hasFlash(const moek::AttentionArgs &a, const LaunchContext &context) {
  auto address = reinterpret_cast<uintptr_t>(a.kv.data);
  return context.arch >= 80 && a.kv.type != KvType::F32 && a.key <= 256 &&
         a.value <= 256 && address % 16 == 0 && a.ring % kKvTile == 0 &&
         (a.kv.type == KvType::Q8_0 || a.kv.rowStride % 16 == 0);
}
} // namespace

std::vector<Launch> launches(const moek::AttentionArgs &a,
                             const LaunchContext &context) {
  int64_t group = a.heads / a.kvHeads;
  Fusion fusion = a.splits > 1 ? Fusion::splitAttention(group) : Fusion::wide();
  if (hasFlash(a, context)) {
    FlashForm form(a.kv.type, a.key, a.value, group, a.kvHeads,
                   /*isDivisible=*/!a.window, context);
    KernelSpec spec = form.spec(a.kv.type, a.key, a.value, group);
    if (a.ring) {
      spec.entry += "_ring" + std::to_string(a.ring);
      spec.define("MOE_RING", a.ring);
    }
    if (a.softcap != 0) {
      spec.entry += "_capped";
      spec.define("MOE_SOFTCAP");
    }
    addPairs(spec, a.q, a.qStride, a.out, a.outStride, a.key, a.value);
    Parts parts = partsOf(form, group, a.kvHeads, a.value, context);
    if (parts.count > 1)
      return {partLaunch(std::move(spec), form, parts,
                         deviceArgs(a, context.step), context)};
    return {makeLaunch(std::move(spec),
                       {tilesFor(context, group, form.rows()),
                        uint32_t(a.splits), uint32_t(a.kvHeads)},
                       uint32_t(form.warps) * 32, form.sharedBytes,
                       deviceArgs(a, context.step), fusion)};
  }
  constexpr uint32_t kKeys = 32, kQueries = 16;
  KernelSpec spec{"kernels/cuda/Attention.cu",
                  "attention_" + std::to_string(a.value),
                  {{"MOE_VALUE", a.value}}};
  addKv(spec, a.kv.type);
  int64_t row = std::max(a.key | 1, a.value);
  return {makeLaunch(std::move(spec),
                     {tilesFor(context, group, kQueries), uint32_t(a.splits),
                      uint32_t(a.kvHeads)},
                     128, floatBytes(kKeys * row + kQueries * a.key),
                     deviceArgs(a, context.step), fusion)};
}

int64_t partBytes(const moek::AttentionArgs &a, const LaunchContext &context) {
  int64_t group = a.kvHeads ? a.heads / a.kvHeads : 1, bytes = 0;
  if (a.window == 0 && a.splits <= 1)
    // The type of the cache is not always known yet.
    for (KvType type : {KvType::F16, KvType::Q8_0}) {
      FlashForm form(type, a.key, a.value, group, a.kvHeads,
                     /*isDivisible=*/true, context);
      bytes = std::max(
          bytes,
          partBytes(form, partsOf(form, group, a.kvHeads, a.value, context),
                    a.kvHeads, a.value));
    }
  return bytes;
}

//===----------------------------------------------------------------------===//
// MlaAttention: as many heads at a time as the workspace holds
//===----------------------------------------------------------------------===//

namespace {
/// The most bytes of keys and values of a group of heads. With 32768 positions
/// a head of DeepSeek-V3 has 20 MiB, and 128 rows of 512 tokens in twelve heads
/// are 48 blocks.
constexpr int64_t kHeadRowsBytes = int64_t(256) << 20;

/// Bytes of a head's keys and values as 16-bit rows (DecompressMma.cu), or as
/// floats.
int64_t headBytes(const moek::MlaAttentionArgs &a, bool isFlash,
                  const LaunchContext &context) {
  if (!isFlash)
    return std::max<int64_t>(context.maxPositions * (a.nope + a.value) * 4, 1);
  int64_t columns = gqaPaddedWidth(a.nope + a.rope) + gqaPaddedWidth(a.value);
  return (context.maxPositions + 16 * context.maxSequences) * columns * 2;
}
int32_t headsAtATime(const moek::MlaAttentionArgs &a, bool isFlash,
                     const LaunchContext &context) {
  return int32_t(
      std::clamp<int64_t>(kHeadRowsBytes / headBytes(a, isFlash, context), 1,
                          std::max(a.heads, 1)));
}

/// Returns whether DecompressMma.cu and FlashAttention.cu support a shape.
bool isFlash(const moek::MlaAttentionArgs &a, const LaunchContext &context) {
  constexpr int32_t kMostLatent = 512; // Weights take 64 KB of shared memory.
  moek::AttentionArgs rows{};
  rows.kv = a.kv;
  rows.key = a.nope + a.rope;
  rows.value = a.value;
  return hasFlash(rows, context) && a.latent <= kMostLatent;
}

/// Launches DecompressMma.cu for keys or values of some heads.
std::optional<Launch> decompressRows(const moek::MlaAttentionArgs &a,
                                     const WeightView &w, bool isTransposed,
                                     const DecompressRowsArgs &args,
                                     uint32_t heads,
                                     const LaunchContext &context) {
  constexpr int64_t kRows = 128, kCols = 64, kDepth = 64;
  KernelSpec spec{"kernels/cuda/DecompressMma.cu",
                  "decompress_mma_" + std::to_string(a.latent),
                  {{"MOE_LATENT", a.latent}}};
  addKv(spec, a.kv.type);
  if (!addFormat(spec, w.format))
    return std::nullopt;
  if (isTransposed) {
    spec.entry += "_transposed";
    spec.define("MOE_TRANSPOSED");
  }
  // Weights are decoded once for all rows of a block; two blocks for each
  // multiprocessor keep it busy.
  uint32_t columns = blocksFor(args.cols, kCols);
  int64_t positions = context.maxPositions + 16 * context.maxSequences;
  int64_t wanted = blocksFor(2 * context.multiprocessors, columns * heads);
  auto blocks =
      uint32_t(std::min<int64_t>(blocksFor(positions, kRows), wanted));
  int64_t depth = kvBlocks(a.latent) * kDepth;
  return makeLaunch(std::move(spec), {blocks, heads, columns}, 256,
                    uint32_t(kCols * depth * 2 + 2 * kRows * kDepth * 2 +
                             kRows * int64_t(sizeof(i64))),
                    args);
}

std::vector<Launch> flashLaunches(const moek::MlaAttentionArgs &a,
                                  const LaunchContext &context) {
  std::vector<Launch> all;
  int32_t key = a.nope + a.rope, group = headsAtATime(a, true, context);
  KvType type = a.kv.type == KvType::F16 ? KvType::F16 : KvType::BF16;
  int64_t width = gqaKvWidth(group, key, a.value);
  for (int32_t first = 0; first < a.heads; first += group) {
    int32_t heads = std::min(group, a.heads - first);
    DecompressRowsArgs args{context.step,
                            deviceView(a.kv),
                            deviceView(a.wk),
                            reinterpret_cast<u16 *>(context.workspace),
                            width,
                            first,
                            a.nope,
                            a.rope,
                            0,
                            int(gqaPaddedWidth(key))};
    std::optional<Launch> keys =
        decompressRows(a, a.wk, !a.keyGemm, args, uint32_t(heads), context);
    args.w = deviceView(a.wv);
    args.cols = a.value;
    args.rope = 0;
    args.at = heads * args.headPitch;
    args.headPitch = int(gqaPaddedWidth(a.value));
    std::optional<Launch> values =
        decompressRows(a, a.wv, false, args, uint32_t(heads), context);
    if (!keys || !values)
      return {};
    all.push_back(*keys);
    all.push_back(*values);
    FlashForm form(type, key, a.value, /*group=*/1, heads,
                   /*isDivisible=*/false, context);
    KernelSpec spec = form.spec(type, key, a.value, /*group=*/1);
    spec.entry += "_contiguous";
    spec.define("MOE_CONTIGUOUS");
    addPairs(spec, a.q, a.qStride, a.out, a.outStride, key, a.value);
    AttentionArgs attention{};
    attention.step = context.step;
    attention.q = a.q ? a.q + int64_t(first) * key : nullptr;
    attention.qStride = a.qStride;
    attention.kv = {reinterpret_cast<u8 *>(context.workspace), width,
                    width * 2};
    attention.out = a.out ? a.out + int64_t(first) * a.value : nullptr;
    attention.outStride = a.outStride;
    attention.heads = attention.kvHeads = heads;
    attention.key = key;
    attention.value = a.value;
    attention.splits = 1;
    attention.scale = a.scale;
    all.push_back(
        makeLaunch(std::move(spec),
                   {tilesFor(context, 1, form.rows()), 1, uint32_t(heads)},
                   uint32_t(form.warps) * 32, form.sharedBytes, attention));
  }
  return all;
}
} // namespace

std::vector<Launch> launches(const moek::MlaAttentionArgs &a,
                             const LaunchContext &context) {
  if (isFlash(a, context))
    return flashLaunches(a, context);
  constexpr uint32_t kRows = 8, kQueries = 16, kKeys = 32;
  std::vector<Launch> all;
  auto *rows = reinterpret_cast<float *>(context.workspace);
  int32_t group = headsAtATime(a, false, context);
  bool isTransposed = !a.keyGemm; // kernels/Ops.def describes the two layouts.
  for (int32_t first = 0; first < a.heads; first += group) {
    auto heads = uint32_t(std::min(group, a.heads - first));
    auto decompress = [&](const WeightView &w, bool transposed, int cols,
                          int column) {
      KernelSpec spec{"kernels/cuda/Decompress.cu", "decompress", {}};
      addKv(spec, a.kv.type);
      if (!addFormat(spec, w.format))
        return false;
      if (transposed) {
        spec.entry += "_transposed";
        spec.define("MOE_TRANSPOSED");
      }
      all.push_back(makeLaunch(
          std::move(spec), {blocksFor(context.maxPositions, kRows), heads},
          kThreads, floatBytes(kRows * a.latent),
          DecompressArgs{context.step, deviceView(a.kv), deviceView(w), rows,
                         context.maxPositions, first, a.latent, cols, column,
                         a.nope + a.value}));
      return true;
    };
    if (!decompress(a.wk, isTransposed, a.nope, 0) ||
        !decompress(a.wv, false, a.value, a.nope))
      return {};
    KernelSpec spec{"kernels/cuda/MlaAttention.cu",
                    "mla_attention_" + std::to_string(a.value),
                    {{"MOE_VALUE", a.value}}};
    addKv(spec, a.kv.type);
    int64_t width = a.nope + a.rope;
    all.push_back(makeLaunch(
        std::move(spec), {tilesFor(context, 1, kQueries), heads}, 128,
        floatBytes(kKeys * (width | 1) + kKeys * a.value + kQueries * width),
        MlaHeadsArgs{context.step, a.q, a.qStride, deviceView(a.kv), rows,
                     context.maxPositions, a.out, a.outStride, first, a.heads,
                     a.nope, a.rope, a.latent, a.value, a.scale}));
  }
  return all;
}

int64_t headRowsBytes(const moek::MlaAttentionArgs &a,
                      const LaunchContext &context) {
  // The larger of both kinds of rows, because the type of the cache is not
  // always known yet.
  int64_t bytes = 0;
  for (bool isFlash : {false, true})
    bytes = std::max(bytes, headBytes(a, isFlash, context) *
                                headsAtATime(a, isFlash, context));
  return bytes;
}

} // namespace moek::cuda
