#include "kernels/cuda/LaunchSparse.h"

#include "kernels/KvCache.h"
#include "kernels/cuda/MakeLaunch.h"

#include <algorithm>

namespace moek::cuda {

namespace {
/// Shared memory for a row of a cache as floats, of Q8_0 in whole blocks.
uint32_t rowBytes(const KvView &kv) {
  return floatBytes(kvBlocks(kv.width) * kKvBlock);
}

/// Of SparseAttention.cu and LatentMma.cu.
constexpr uint32_t kHeads = 16;
/// Rows that a span has at least: two times what a block takes at a time.
constexpr int64_t kSpan = 64;
constexpr int64_t kMostSplits = 64;

/// Into how many spans a token's list is cut, so that a few tokens keep all
/// multiprocessors busy. Not by addresses, which a compiler has not got.
int32_t splitsOf(const moek::SparseAttentionArgs &a,
                 const LaunchContext &context) {
  int64_t entries = a.ratio > 0 ? context.maxPositions / a.ratio : 0;
  if (a.topK > 0)
    entries = std::min<int64_t>(entries, a.topK);
  int64_t most = std::min<int64_t>(a.window, context.maxPositions) + entries;
  int64_t blocks = int64_t(context.maxTokens) * blocksFor(a.heads, kHeads);
  int64_t wanted = (2 * context.multiprocessors + blocks - 1) / blocks;
  return int32_t(std::max<int64_t>(
      std::min({wanted, (most + kSpan - 1) / kSpan, kMostSplits}), 1));
}

/// With tensor cores where caches and shape allow, else in float.
KernelSpec sparseSpec(const moek::SparseAttentionArgs &a,
                      const LaunchContext &context) {
  bool hasRows = a.window > 0, hasEntries = a.ratio > 0;
  const KvView &first = hasRows ? a.kv : a.entries;
  bool isOneType = !hasRows || !hasEntries || a.entries.type == a.kv.type;
  KernelSpec spec;
  if (isOneType && a.value <= a.key &&
      hasLatentMma(first, a.value, a.key, context) &&
      (!hasEntries || hasLatentMma(a.entries, a.value, a.key, context))) {
    spec.entry = "sparse_mma";
    spec.defines = {"MOE_LISTED"};
    addLatentMma(spec, a.value, a.key);
    addKv(spec, first.type);
    return spec;
  }
  std::string value = std::to_string(a.value);
  spec = {"kernels/cuda/SparseAttention.cu",
          "sparse_attention_" + value,
          {"MOE_VALUE=" + value}};
  addKv(spec, first.type);
  if (!isOneType) {
    spec.entry += "_" + std::string(kvTypeName(a.entries.type));
    spec.defines.push_back("MOE_ENTRIES=" +
                           std::to_string(int(a.entries.type)));
  }
  return spec;
}
} // namespace

std::vector<Launch> launches(const moek::LayerNormArgs &a,
                             const LaunchContext &context) {
  auto threads =
      uint32_t(std::clamp<int64_t>((a.cols + 31) / 32 * 32, 32, kThreads));
  return {
      makeLaunch({"kernels/cuda/LayerNorm.cu", "layer_norm", {}},
                 {uint32_t(context.maxTokens)}, threads, 0,
                 LayerNormArgs{context.step, a.x, a.weight, a.bias, a.out,
                               a.xStride, a.outStride, int(a.cols), a.eps})};
}

std::vector<Launch> launches(const moek::RowStoreArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/RowStore.cu", "row_store", {}};
  addKv(spec, a.kv.type);
  return {makeLaunch(
      std::move(spec), {uint32_t(context.maxTokens)}, kThreads, rowBytes(a.kv),
      RowStoreArgs{context.step, a.x, a.xStride, kvOf(a.kv), a.ring})};
}

std::vector<Launch> launches(const moek::IndexScoresArgs &a,
                             const LaunchContext &context) {
  constexpr uint32_t kEntries = 32, kQueries = 16;
  KernelSpec spec{"kernels/cuda/IndexScores.cu", "index_scores", {}};
  addKv(spec, a.kv.type);
  // Eight blocks for a multiprocessor, each of which reads its token's queries
  // again for every 32 entries.
  int64_t tiles = (context.maxPositions / a.ratio + kEntries - 1) / kEntries;
  int64_t each =
      (8 * context.multiprocessors + context.maxTokens - 1) / context.maxTokens;
  return {makeLaunch(std::move(spec),
                     {uint32_t(context.maxTokens),
                      uint32_t(std::max<int64_t>(std::min(tiles, each), 1))},
                     128, floatBytes(kEntries * (a.key | 1) + kQueries * a.key),
                     IndexScoresArgs{context.step, a.q, a.weights, a.qStride,
                                     a.weightsStride, kvOf(a.kv), a.out,
                                     a.outStride, a.heads, a.key, a.ratio,
                                     a.scale})};
}

std::vector<Launch> launches(const moek::IndexSelectArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/IndexSelect.cu", "index_select", {}},
                     {uint32_t(context.maxTokens)}, 512, 0,
                     IndexSelectArgs{context.step, a.scores, a.scoresStride,
                                     a.chosen, a.topK, a.ratio})};
}

std::vector<Launch> launches(const moek::SparseAttentionArgs &a,
                             const LaunchContext &context) {
  int32_t splits = splitsOf(a, context);
  SparseAttentionArgs args{
      context.step, a.q,        a.sinks,
      a.qStride,    kvOf(a.kv), kvOf(a.entries),
      a.chosen,     a.out,      reinterpret_cast<float *>(context.workspace),
      a.outStride,  a.heads,    a.key,
      a.value,      a.window,   a.ratio,
      a.topK,       a.ring,     splits,
      a.scale};
  KernelSpec spec = sparseSpec(a, context);
  auto tokens = uint32_t(context.maxTokens);
  uint32_t heads = blocksFor(a.heads, kHeads), spans = uint32_t(splits);
  std::vector<Launch> all;
  if (spec.file == kLatentMmaFile)
    all.push_back(makeLaunch(std::move(spec), {tokens, spans, heads}, 128,
                             latentMmaBytes(a.key), args));
  else
    all.push_back(
        makeLaunch(std::move(spec), {tokens, heads, spans}, 128, 0, args));
  if (splits > 1)
    all.push_back(
        makeLaunch({"kernels/cuda/SparseCombine.cu", "sparse_combine", {}},
                   {uint32_t(context.maxTokens), uint32_t(a.heads),
                    blocksFor(a.value, 64)},
                   kThreads, 0, args));
  return all;
}

int64_t spanBytes(const moek::SparseAttentionArgs &a,
                  const LaunchContext &context) {
  int64_t splits = splitsOf(a, context);
  return splits > 1 ? context.maxTokens * splits * a.heads * (a.value + 2) * 4
                    : 0;
}

std::vector<Launch> launches(const moek::CompressArgs &a,
                             const LaunchContext &context) {
  constexpr uint32_t kColumns = 128;
  return {
      makeLaunch({"kernels/cuda/Compress.cu", "compress", {}},
                 {blocksFor(a.cols, kColumns), uint32_t(context.maxSequences)},
                 kColumns, 0,
                 CompressArgs{context.step, a.kv, a.gate, a.ape, a.kvStride,
                              a.gateStride, kvOf(a.state), a.out, a.outStride,
                              a.cols, a.ratio, a.overlap})};
}

std::vector<Launch> launches(const moek::EntryStoreArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/EntryStore.cu", "entry_store", {}};
  addKv(spec, a.kv.type);
  return {makeLaunch(
      std::move(spec), {uint32_t(context.maxTokens)}, kThreads, rowBytes(a.kv),
      EntryStoreArgs{context.step, a.x, a.weight, a.invFreq, a.xStride,
                     kvOf(a.kv), int(a.cols), a.dim, a.ratio, a.eps})};
}

std::vector<Launch> launches(const moek::HyperWeightsArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/HyperWeights.cu", "hyper_weights", {}},
                     {uint32_t(context.maxTokens)}, 32, 0,
                     HyperWeightsArgs{context.step, a.x, a.scale, a.base, a.out,
                                      a.xStride, a.outStride, int(a.cols),
                                      a.streams, a.iterations, a.eps})};
}

std::vector<Launch> launches(const moek::HyperCollapseArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/HyperStreams.cu", "hyper_collapse", {}},
                     {blocksFor(a.cols, kThreads), uint32_t(context.maxTokens)},
                     kThreads, 0,
                     HyperStreamsArgs{context.step, nullptr, a.x, a.weights, 0,
                                      a.xStride, a.weightsStride, a.out,
                                      a.outStride, a.cols, a.streams})};
}

std::vector<Launch> launches(const moek::HyperSpreadArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch(
      {"kernels/cuda/HyperStreams.cu", "hyper_spread", {"MOE_SPREAD"}},
      {blocksFor(a.cols, kThreads), uint32_t(context.maxTokens)}, kThreads, 0,
      HyperStreamsArgs{context.step, a.y, a.x, a.weights, a.yStride, a.xStride,
                       a.weightsStride, a.out, a.outStride, a.cols,
                       a.streams})};
}

std::vector<Launch> launches(const moek::ClampedMulArgs &a,
                             const LaunchContext &context) {
  int64_t perToken = a.cols * a.rowsPerToken;
  return {makeLaunch(
      {"kernels/cuda/ClampedMul.cu", "clamped_mul", {}},
      {blocksFor(context.maxTokens * perToken, kThreads)}, kThreads, 0,
      ClampedMulArgs{context.step, a.gate, a.up, a.out, perToken, a.limit})};
}

} // namespace moek::cuda
