//===- LaunchSparse.cpp - Launches of sparse attention --------------------===//
//
// Also launches of the other instructions that models with sparse attention
// need.
//
//===----------------------------------------------------------------------===//

#include "kernels/KvCache.h"
#include "kernels/cuda/Launches.h"
#include "kernels/cuda/MakeLaunch.h"

#include <algorithm>

namespace moek::cuda {

namespace {
/// Bytes of shared memory for a row of a cache as floats, filled up to whole
/// blocks of 64 columns.
uint32_t rowBytes(const KvView &kv) {
  return floatBytes(kvBlocks(kv.width) * kKvBlock);
}

/// The number of heads that a block of SparseAttention.cu or LatentMma.cu
/// computes.
constexpr uint32_t kHeads = 16;
/// The fewest rows of a KV split: twice the 32 rows that a block takes at a
/// time.
constexpr int64_t kSpan = 64;
constexpr int64_t kMostSplits = 64;

/// Returns the number of KV splits of a token's list of at most `most` rows,
/// which `blocks` blocks read: enough that the step's tokens give each
/// multiprocessor two blocks. It does not depend on addresses, which the
/// compiler does not know.
int32_t splitsOf(int64_t most, int64_t blocks, const LaunchContext &context) {
  blocks *= context.maxTokens;
  int64_t wanted = (2 * context.multiprocessors + blocks - 1) / blocks;
  return int32_t(std::max<int64_t>(
      std::min({wanted, (most + kSpan - 1) / kSpan, kMostSplits}), 1));
}

int32_t splitsOf(const moek::SparseAttentionArgs &a,
                 const LaunchContext &context) {
  int64_t entries = a.ratio > 0 ? context.maxPositions / a.ratio : 0;
  if (a.topK > 0) // The chosen blocks, and entries after the last block.
    entries = std::min<int64_t>(entries, (int64_t(a.topK) + 1) * a.pool - 1);
  int64_t most = std::min<int64_t>(a.window, context.maxPositions) + entries;
  return splitsOf(most, blocksFor(a.heads, kHeads), context);
}

/// The number of blocks of SparseAttention.cu that compute a token's heads.
uint32_t headBlocks(const moek::BlockAttentionArgs &a) {
  return uint32_t(a.kvHeads) * blocksFor(a.heads / a.kvHeads, kHeads);
}

int32_t splitsOf(const moek::BlockAttentionArgs &a,
                 const LaunchContext &context) {
  int64_t most = (int64_t(a.topK) + std::max(a.local, 1)) * a.ratio;
  return splitsOf(std::min<int64_t>(most, context.maxPositions), headBlocks(a),
                  context);
}

/// Bytes of the sums of KV splits.
template <class Args>
int64_t bytesOfSpans(const Args &a, const LaunchContext &context) {
  int64_t splits = splitsOf(a, context);
  return splits > 1 ? context.maxTokens * splits * a.heads * (a.value + 2) * 4
                    : 0;
}

/// The launch that combines KV splits.
template <class Args>
Launch combination(const char *entry, const Args &args, bool areBlocks,
                   const LaunchContext &context) {
  bool isAligned = reinterpret_cast<uintptr_t>(args.spans) % 16 == 0 &&
                   int64_t(args.heads) * (args.value + 2) % 4 == 0;
  int64_t columns = combinedColumns(args.heads, args.value, isAligned);
  KernelSpec spec =
      combineSpec("kernels/cuda/SparseCombine.cu", entry, columns);
  if (areBlocks)
    spec.define("MOE_BLOCKS");
  return makeLaunch(std::move(spec),
                    {uint32_t(context.maxTokens), uint32_t(args.heads),
                     blocksFor(args.value, columns)},
                    kThreads, 0, args);
}

/// Shared memory of Index.cuh.
uint32_t indexBytes(int64_t key) {
  return floatBytes(32 * (key | 1) + 16 * key);
}

/// Returns what SparseAttention is compiled from: LatentMma.cu, with tensor
/// cores, if caches and shape allow it, otherwise SparseAttention.cu, in float.
KernelSpec sparseSpec(const moek::SparseAttentionArgs &a,
                      const LaunchContext &context) {
  bool hasRows = a.window > 0, hasEntries = a.ratio > 0;
  const KvView &first = hasRows ? a.kv : a.entries;
  bool isOneType = !hasRows || !hasEntries || a.entries.type == a.kv.type;
  KernelSpec spec;
  if (isOneType && a.value <= a.key &&
      hasLatentMma(first, a.value, a.key, /*isListed=*/true, context) &&
      (!hasEntries || hasLatentMma(a.entries, a.value, a.key,
                                   /*isListed=*/true, context))) {
    spec.entry = "sparse_mma";
    spec.define("MOE_LISTED");
    addLatentMma(spec, a.value, a.key, latentMmaTeams(a.heads));
    addKv(spec, first.type);
    return spec;
  }
  std::string value = std::to_string(a.value);
  spec = {"kernels/cuda/SparseAttention.cu",
          "sparse_attention_" + value,
          {{"MOE_VALUE", a.value}}};
  addKv(spec, first.type);
  if (!isOneType) {
    spec.entry += "_" + std::string(kvTypeName(a.entries.type));
    spec.define("MOE_ENTRIES", int(a.entries.type));
  }
  return spec;
}
} // namespace

std::vector<Launch> launches(const moek::LayerNormArgs &a,
                             const LaunchContext &context) {
  auto threads =
      uint32_t(std::clamp<int64_t>((a.cols + 31) / 32 * 32, 32, kThreads));
  return {makeLaunch({"kernels/cuda/LayerNorm.cu", "layer_norm", {}},
                     {uint32_t(context.maxTokens)}, threads, 0,
                     deviceArgs(a, context.step), Fusion::blocks())};
}

std::vector<Launch> launches(const moek::RowStoreArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/RowStore.cu", "row_store", {}};
  addKv(spec, a.kv.type);
  return {makeLaunch(std::move(spec), {uint32_t(context.maxTokens)}, kThreads,
                     rowBytes(a.kv), deviceArgs(a, context.step),
                     Fusion::blocks())};
}

std::vector<Launch> launches(const moek::IndexScoresArgs &a,
                             const LaunchContext &context) {
  constexpr uint32_t kEntries = 32;
  KernelSpec spec{"kernels/cuda/IndexScores.cu", "index_scores", {}};
  addKv(spec, a.kv.type);
  // There are eight blocks per multiprocessor, each of which reads its token's
  // queries again for every 32 entries.
  int64_t tiles = (context.maxPositions / a.ratio + kEntries - 1) / kEntries;
  int64_t each =
      (8 * context.multiprocessors + context.maxTokens - 1) / context.maxTokens;
  return {makeLaunch(std::move(spec),
                     {uint32_t(context.maxTokens),
                      uint32_t(std::max<int64_t>(std::min(tiles, each), 1))},
                     128, indexBytes(a.key), deviceArgs(a, context.step))};
}

std::vector<Launch> launches(const moek::IndexSelectArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/IndexSelect.cu", "index_select", {}},
                     {uint32_t(context.maxTokens), uint32_t(a.groups)}, 512, 0,
                     deviceArgs(a, context.step))};
}

std::vector<Launch> launches(const moek::BlockMaximaArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/Candidates.cu", "block_maxima", {}},
                     {uint32_t(context.maxTokens)}, kThreads, 0,
                     deviceArgs(a, context.step))};
}

std::vector<Launch> launches(const moek::KeepBlocksArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch(
      {"kernels/cuda/Candidates.cu", "keep_blocks", {{"MOE_KEEP"}}},
      {uint32_t(context.maxTokens)}, kThreads, 0, deviceArgs(a, context.step))};
}

std::vector<Launch> launches(const moek::SparseAttentionArgs &a,
                             const LaunchContext &context) {
  int32_t splits = splitsOf(a, context);
  SparseSplitsArgs args{deviceArgs(a, context.step),
                        reinterpret_cast<float *>(context.workspace), splits};
  KernelSpec spec = sparseSpec(a, context);
  KvType type = a.window > 0 ? a.kv.type : a.entries.type;
  auto tokens = uint32_t(context.maxTokens);
  uint32_t heads = blocksFor(a.heads, kHeads), spans = uint32_t(splits);
  std::vector<Launch> all;
  if (spec.file == kLatentMmaFile) {
    uint32_t teams = latentMmaTeams(a.heads);
    all.push_back(
        makeLaunch(std::move(spec),
                   {tokens, spans, blocksFor(a.heads, teams * kLatentMmaHeads)},
                   teams * kLatentMmaThreads,
                   latentMmaBytes(type, a.key, teams), args, kLatentMmaFusion));
  } else {
    all.push_back(
        makeLaunch(std::move(spec), {tokens, heads, spans}, 128, 0, args));
  }
  if (splits > 1)
    all.push_back(
        combination("sparse_combine", args, /*areBlocks=*/false, context));
  return all;
}

int64_t spanBytes(const moek::SparseAttentionArgs &a,
                  const LaunchContext &context) {
  return bytesOfSpans(a, context);
}

std::vector<Launch> launches(const moek::BlockScoresArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/BlockScores.cu", "block_scores", {}};
  addKv(spec, a.kv.type);
  int64_t blocks = context.maxPositions / a.ratio;
  int64_t each =
      (8 * context.multiprocessors + context.maxTokens - 1) / context.maxTokens;
  return {makeLaunch(std::move(spec),
                     {uint32_t(context.maxTokens),
                      uint32_t(std::max<int64_t>(std::min(blocks, each), 1))},
                     128, indexBytes(a.key), deviceArgs(a, context.step))};
}

std::vector<Launch> launches(const moek::BlockAttentionArgs &a,
                             const LaunchContext &context) {
  int32_t splits = splitsOf(a, context);
  BlockSplitsArgs args{deviceArgs(a, context.step),
                       reinterpret_cast<float *>(context.workspace), splits};
  KernelSpec spec{"kernels/cuda/SparseAttention.cu",
                  "block_attention_" + std::to_string(a.value),
                  {{"MOE_VALUE", a.value}}};
  addKv(spec, a.kv.type);
  spec.define("MOE_BLOCKS");
  std::vector<Launch> all;
  all.push_back(
      makeLaunch(std::move(spec),
                 {uint32_t(context.maxTokens), headBlocks(a), uint32_t(splits)},
                 128, 0, args));
  if (splits > 1)
    all.push_back(
        combination("block_combine", args, /*areBlocks=*/true, context));
  return all;
}

int64_t spanBytes(const moek::BlockAttentionArgs &a,
                  const LaunchContext &context) {
  return bytesOfSpans(a, context);
}

std::vector<Launch> launches(const moek::CompressArgs &a,
                             const LaunchContext &context) {
  constexpr uint32_t kColumns = 128;
  return {
      makeLaunch({"kernels/cuda/Compress.cu", "compress", {}},
                 {blocksFor(a.cols, kColumns), uint32_t(context.maxSequences)},
                 kColumns, 0, deviceArgs(a, context.step))};
}

std::vector<Launch> launches(const moek::EntryStoreArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/EntryStore.cu", "entry_store", {}};
  addKv(spec, a.kv.type);
  return {makeLaunch(std::move(spec), {uint32_t(context.maxTokens)}, kThreads,
                     rowBytes(a.kv), deviceArgs(a, context.step),
                     Fusion::blocks())};
}

std::vector<Launch> launches(const moek::HyperWeightsArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/HyperWeights.cu", "hyper_weights", {}},
                     {uint32_t(context.maxTokens)}, 32, 0,
                     deviceArgs(a, context.step), Fusion::fixedBlocks())};
}

/// Launches HyperStreams.cu, which is for both ops.
template <class Args>
static std::vector<Launch>
streams(const char *entry, std::vector<Definition> defines, const Args &a,
        const LaunchContext &context) {
  return {
      makeLaunch({"kernels/cuda/HyperStreams.cu", entry, std::move(defines)},
                 {blocksFor(a.cols, kThreads), uint32_t(context.maxTokens)},
                 kThreads, 0, deviceArgs(a, context.step), Fusion::warps())};
}

std::vector<Launch> launches(const moek::HyperCollapseArgs &a,
                             const LaunchContext &context) {
  return streams("hyper_collapse", {}, a, context);
}

std::vector<Launch> launches(const moek::HyperSpreadArgs &a,
                             const LaunchContext &context) {
  return streams("hyper_spread", {{"MOE_SPREAD"}}, a, context);
}

std::vector<Launch> launches(const moek::ResidualMixArgs &a,
                             const LaunchContext &context) {
  constexpr uint32_t kMixThreads = 512;
  return {makeLaunch({"kernels/cuda/ResidualMix.cu", "residual_mix", {}},
                     {uint32_t(context.maxTokens)}, kMixThreads, 0,
                     deviceArgs(a, context.step))};
}

std::vector<Launch> launches(const moek::ConcatArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch(
      {"kernels/cuda/Concat.cu", "concat", {}},
      {blocksFor(a.first + a.second, kThreads), uint32_t(context.maxTokens)},
      kThreads, 0, deviceArgs(a, context.step))};
}

std::vector<Launch> launches(const moek::GateStreamsArgs &a,
                             const LaunchContext &context) {
  auto threads =
      uint32_t(std::clamp<int64_t>((a.cols + 31) / 32 * 32, 32, kThreads));
  return {makeLaunch({"kernels/cuda/GateStreams.cu", "gate_streams", {}},
                     {uint32_t(context.maxTokens), uint32_t(a.streams)},
                     threads, 0, deviceArgs(a, context.step),
                     Fusion::blocks())};
}

std::vector<Launch> launches(const moek::ClampedMulArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch(
      {"kernels/cuda/ClampedMul.cu", "clamped_mul", {}},
      {blocksFor(context.maxTokens * a.cols * a.rowsPerToken, kThreads)},
      kThreads, 0, deviceArgs(a, context.step), Fusion::warps())};
}

} // namespace moek::cuda
