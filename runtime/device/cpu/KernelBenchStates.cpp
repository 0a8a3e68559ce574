//===- KernelBenchStates.cpp - Benches of states and sparse attention -----===//
//
// Measures Qwen3-Next's gated delta nets, those of Kimi Linear and the Mamba 2
// of Nemotron 3 Nano, DeepSeek-V3.2's indexer and attention to the rows that it
// chooses, MiniMax-M3's to blocks, and DeepSeek-V4's cache entries. Rates for
// other shapes are scaled by their work.
//
//===----------------------------------------------------------------------===//

#include "kernels/Abi.h"
#include "kernels/Entries.h"
#include "kernels/KvCache.h"
#include "runtime/device/cpu/KernelBench.h"

#include <algorithm>
#include <cstring>

namespace moert {

using namespace moek;

namespace {
constexpr int32_t kKeyHeads = 16, kHeads = 32, kHead = 128, kTaps = 4;
/// Columns of queries, keys and values together.
constexpr int64_t kMixed = (2 * kKeyHeads + kHeads) * kHead;
/// Columns of queries, of keys or of values, if these have as many.
constexpr int64_t kPart = kHeads * kHead;
/// Shapes of the indexer and of attention to latent rows. The heads are fewer
/// than the model's; workers take eight or more heads at a time.
constexpr int32_t kIndexHeads = 64, kIndexKey = 128, kTopK = 2048;
constexpr int32_t kLatentHeads = 64, kLatent = 512, kRope = 64;
/// Shape of a cache entry and the number of positions that it stands for.
constexpr int32_t kEntryCols = 512, kRatio = 4;
/// Heads of Mamba 2, elements of their values, and groups that share keys.
constexpr int32_t kSumHeads = 64, kSumValue = 64, kSumGroups = 8;
constexpr int32_t kBlockHeads = 64, kBlockGroups = 4, kBlock = 128;
constexpr int32_t kStreams = 4, kStreamCols = 4096, kIterations = 20;
constexpr size_t kMostLayers = 48;
/// Operations per score, as the cost model counts them
/// (dialects/moe/MoeWork.h).
constexpr double kSoftmaxOps = 4;
} // namespace

int64_t statesScratchBytes() {
  return std::max({deltaRuleScratchBytes(kHead, kHead),
                   indexScoresScratchBytes(kIndexHeads, kIndexKey),
                   indexSelectScratchBytes(),
                   sparseAttentionScratchBytes(kLatentHeads, kLatent + kRope),
                   blockAttentionScratchBytes(kBlockHeads, kHead, kHead)});
}

/// Returns the (query, visible key) pairs of a step.
double pairsOf(const Step &step) {
  return double(step.tokens) *
         (double(step.position) + (double(step.tokens) + 1) / 2);
}

template <class Args>
double KernelBench::secondsOfCaches(const KernelInfo &opKernel, const Args &a,
                                    KvView Args::*cache, KvType type,
                                    int64_t width, int64_t capacity,
                                    Step step) {
  // Each layer has a cache, which has left the CPU's caches before its next
  // use.
  auto bytes = uint64_t(kvBytes(type, width, capacity) + 63) / 64 * 64;
  std::vector<Args> all(
      std::clamp<size_t>(caches_.size() / bytes, 1, kMostLayers), a);
  std::vector<Call> calls;
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].*cache = {reinterpret_cast<uint8_t *>(caches_.data()) + i * bytes,
                     width, capacity, kvRowBytes(type, width), type};
    calls.push_back({resolveKernel(opKernel.name), &all[i], step});
  }
  return secondsOf(calls);
}

template <class Args>
double KernelBench::secondsOfStates(const KernelInfo &opKernel, Args a,
                                    int64_t width, int32_t tokens) {
  // Each layer has a state, which has left the CPU's caches before its next
  // use.
  int64_t floats = (width + 15) / 16 * 16;
  uint64_t left = (outputs_.size() - outputsUsed_) / 4 / uint64_t(floats);
  size_t layers = std::clamp<size_t>(left, 1, kMostLayers);
  auto *states = output<float>(int64_t(layers) * floats);
  std::fill_n(states, int64_t(layers) * floats, 0.01f);
  std::vector<Args> all(layers, a);
  std::vector<Call> calls;
  for (size_t i = 0; i < layers; ++i) {
    all[i].state = {reinterpret_cast<uint8_t *>(states + int64_t(i) * floats),
                    width, 1, width * 4, KvType::F32};
    // Positions start above 0, because kernels read no state at position 0.
    calls.push_back({resolveKernel(opKernel.name), &all[i], {tokens, kRatio}});
  }
  return secondsOf(calls);
}

double KernelBench::deltaRule(const KernelInfo &opKernel, int32_t tokens,
                              std::string_view variant) {
  DeltaRuleArgs a{};
  a.channels = variant == "channels", a.sums = variant == "sums";
  a.heads = a.sums ? kSumHeads : kHeads;
  a.keyHeads = a.sums ? kSumGroups : a.channels ? kHeads : kKeyHeads;
  a.key = kHead, a.value = a.sums ? kSumValue : kHead;
  a.eps = 1e-6f, a.outStride = int64_t(a.heads) * a.value;
  a.xStride = 2 * int64_t(a.keyHeads) * a.key + a.outStride;
  a.gatesStride = a.heads + int64_t(a.heads) * (a.channels ? a.key : 1);
  a.x = input<float>(tokens * a.xStride);
  auto *gates = output<float>(tokens * a.gatesStride);
  std::fill_n(gates, tokens * a.gatesStride, 0.5f);
  a.gates = gates;
  a.out = output<float>(tokens * a.outStride);
  double elements = double(a.outStride) * a.key;
  return (a.sums ? 5 : 7) * double(tokens) * elements /
         secondsOfStates(opKernel, a, int64_t(elements), tokens);
}

double KernelBench::stateful(const KernelInfo &opKernel, int32_t tokens,
                             std::string_view variant) {
  auto rows = double(tokens);
  auto cacheOf = [&](KvType type, int64_t width, int64_t capacity) -> KvView {
    return {output<uint8_t>(kvBytes(type, width, capacity)), width, capacity,
            kvRowBytes(type, width), type};
  };
  auto rate = [&](const auto &args, double units) {
    Step step{tokens, kRatio - 1};
    return units / secondsOf({{resolveKernel(opKernel.name), &args, step}});
  };
  switch (opKernel.op) {
  case OpCode::ShortConv: {
    ShortConvArgs a{};
    const bool hasParts = variant == "parts";
    a.cols = a.outStride = kMixed, a.taps = kTaps, a.silu = variant != "plain";
    a.dilation = 1;
    a.xStride = hasParts ? kPart : kMixed;
    a.x = input<float>(tokens * a.xStride);
    a.weight = input<float>(a.xStride * kTaps);
    if (hasParts) {
      a.second = input<float>(tokens * kPart);
      a.third = input<float>(tokens * kPart);
      a.secondWeight = input<float>(kPart * kTaps);
      a.thirdWeight = input<float>(kPart * kTaps);
      a.cols = a.outStride = 3 * kPart;
    }
    a.out = output<float>(tokens * a.cols);
    int64_t width = (kTaps - 1) * a.cols;
    return (8 * rows * double(a.cols) + 8 * double(width)) /
           secondsOfStates(opKernel, a, width, tokens);
  }
  case OpCode::DeltaGates: {
    DeltaGatesArgs a{};
    a.heads = kHeads, a.decays = kHeads * (variant == "channels" ? kHead : 1);
    a.beta = input<float>(tokens * kHeads);
    a.alpha = input<float>(tokens * a.decays);
    a.a = input<float>(kHeads), a.dt = input<float>(a.decays);
    a.out = output<float>(tokens * (kHeads + a.decays));
    return rate(a, 8 * rows * double(kHeads + a.decays));
  }
  case OpCode::DeltaRule:
    return deltaRule(opKernel, tokens, variant);
  case OpCode::LayerNorm: {
    LayerNormArgs a{};
    a.cols = a.xStride = a.outStride = kIndexKey, a.eps = 1e-6f;
    a.x = input<float>(tokens * kIndexKey);
    a.weight = input<float>(kIndexKey), a.bias = input<float>(kIndexKey);
    a.out = output<float>(tokens * kIndexKey);
    return rate(a, 8 * rows * kIndexKey);
  }
  case OpCode::RowStore: {
    RowStoreArgs a{};
    a.xStride = kIndexKey, a.x = input<float>(tokens * kIndexKey);
    a.kv = cacheOf(KvType::F16, kIndexKey, tokens + kRatio), a.ratio = 1;
    return rate(a, 6 * rows * kIndexKey);
  }
  case OpCode::IndexSelect: {
    IndexSelectArgs a{};
    a.topK = kTopK, a.ratio = a.groups = 1, a.scoresStride = 2 * kTopK + tokens;
    auto *scores = output<float>(tokens * a.scoresStride);
    for (int64_t i = 0; i < tokens * a.scoresStride; ++i)
      scores[i] = float((i * 37) % 1009) / 500 - 1;
    a.scores = scores, a.chosen = output<int32_t>(tokens * a.topK);
    Step step{tokens, 2 * kTopK - 1};
    double seen = 2 * kTopK + (rows - 1) / 2;
    return rows * (4 * kTopK + 16 * seen) /
           secondsOf({{resolveKernel(opKernel.name), &a, step}});
  }
  case OpCode::Compress: {
    CompressArgs a{};
    a.cols = a.outStride = kEntryCols, a.ratio = kRatio, a.overlap = true;
    a.kvStride = a.gateStride = 2 * kEntryCols;
    a.kv = input<float>(tokens * a.kvStride);
    a.gate = input<float>(tokens * a.gateStride);
    a.ape = input<float>(kRatio * a.kvStride);
    a.out = output<float>(tokens * a.outStride);
    int64_t width = compressStateWidth(kEntryCols, true);
    return (8 * rows * double(a.kvStride) +
            4 * rows / kRatio * double(kEntryCols) + 8 * double(width)) /
           secondsOfStates(opKernel, a, width, tokens);
  }
  case OpCode::EntryStore: {
    EntryStoreArgs a{};
    a.cols = a.xStride = kEntryCols, a.dim = kRope, a.ratio = kRatio;
    a.eps = 1e-6f;
    a.x = input<float>(tokens * kEntryCols),
    a.weight = input<float>(kEntryCols);
    a.invFreq = input<float>(kRope / 2);
    a.kv = cacheOf(KvType::F16, kEntryCols, tokens + kRatio);
    double entries = double((tokens + kRatio - 1) / kRatio);
    return rate(a, entries * double(4 * kEntryCols + a.kv.rowStride));
  }
  case OpCode::HyperWeights: {
    HyperWeightsArgs a{};
    a.cols = a.xStride = a.outStride = kStreams * (2 + kStreams);
    a.streams = kStreams, a.iterations = kIterations, a.eps = 1e-6f;
    a.x = input<float>(tokens * a.cols);
    a.scale = input<float>(3), a.base = input<float>(a.cols);
    a.out = output<float>(tokens * a.cols);
    return rate(a, 8 * rows * double(a.cols));
  }
  case OpCode::HyperCollapse: {
    HyperCollapseArgs a{};
    a.streams = kStreams, a.cols = a.outStride = kStreamCols;
    a.xStride = kStreams * kStreamCols;
    a.weightsStride = kStreams * (2 + kStreams);
    a.x = input<float>(tokens * a.xStride);
    a.weights = input<float>(tokens * a.weightsStride);
    a.out = output<float>(tokens * a.outStride);
    return rate(a, 4 * rows * double(a.xStride + a.weightsStride + a.cols));
  }
  case OpCode::HyperSpread: {
    HyperSpreadArgs a{};
    a.streams = kStreams, a.cols = a.yStride = kStreamCols;
    a.xStride = a.outStride = kStreams * kStreamCols;
    a.weightsStride = kStreams * (2 + kStreams);
    a.y = input<float>(tokens * a.yStride),
    a.x = input<float>(tokens * a.xStride);
    a.weights = input<float>(tokens * a.weightsStride);
    a.out = output<float>(tokens * a.outStride);
    return rate(a,
                4 * rows * double(a.yStride + 2 * a.xStride + a.weightsStride));
  }
  default:
    return 0;
  }
}

double KernelBench::indexScores(const KernelInfo &opKernel, KvType type,
                                int32_t tokens, int32_t depth) {
  startOver();
  IndexScoresArgs a{};
  a.heads = kIndexHeads, a.key = kIndexKey, a.ratio = 1, a.scale = 0.01f;
  a.qStride = kIndexHeads * kIndexKey, a.weightsStride = kIndexHeads;
  a.outStride = depth;
  a.q = input<float>(tokens * a.qStride);
  a.weights = input<float>(tokens * a.weightsStride);
  a.out = output<float>(int64_t(tokens) * depth);
  Step step{tokens, depth - tokens};
  return pairsOf(step) * kIndexHeads * (2 * kIndexKey + 3) /
         secondsOfCaches(opKernel, a, &IndexScoresArgs::kv, type, kIndexKey,
                         depth, step);
}

double KernelBench::sparse(const KernelInfo &opKernel, KvType type,
                           int32_t tokens, int32_t depth) {
  startOver();
  // The chosen rows are every second row of the cache.
  int32_t rows = 2 * depth;
  SparseAttentionArgs a{};
  a.heads = kLatentHeads, a.key = kLatent + kRope, a.value = kLatent;
  a.qStride = int64_t(a.heads) * a.key,
  a.outStride = int64_t(a.heads) * a.value;
  a.ratio = a.pool = 1, a.topK = depth, a.scale = 0.05f;
  a.q = input<float>(tokens * a.qStride);
  a.out = output<float>(tokens * a.outStride);
  auto *chosen = output<int32_t>(int64_t(tokens) * depth);
  for (int64_t i = 0; i < int64_t(tokens) * depth; ++i)
    chosen[i] = int32_t(2 * (i % depth));
  a.chosen = chosen;
  Step step{tokens, rows - 1};
  return double(tokens) * depth * a.heads *
         (2.0 * a.key + 2.0 * a.value + kSoftmaxOps) /
         secondsOfCaches(opKernel, a, &SparseAttentionArgs::entries, type,
                         a.key, rows + tokens, step);
}

double KernelBench::blockScores(const KernelInfo &opKernel, KvType type,
                                int32_t tokens, int32_t depth) {
  startOver();
  BlockScoresArgs a{};
  a.groups = kBlockGroups, a.key = kHead, a.ratio = kBlock, a.local = 1;
  a.qStride = kBlockGroups * kHead, a.outStride = depth / kBlock + 1;
  a.q = input<float>(tokens * a.qStride);
  a.out = output<float>(tokens * kBlockGroups * a.outStride);
  Step step{tokens, depth - tokens};
  return pairsOf(step) * kBlockGroups * (2 * kHead + 1) /
         secondsOfCaches(opKernel, a, &BlockScoresArgs::kv, type, kHead, depth,
                         step);
}

double KernelBench::blockAttention(const KernelInfo &opKernel, KvType type,
                                   int32_t tokens, int32_t depth) {
  startOver();
  // The chosen blocks are every second one before a token's own, of which it
  // sees one row or more.
  const int32_t blocks = depth / kBlock - 1, before = 2 * blocks * kBlock;
  BlockAttentionArgs a{};
  a.heads = kBlockHeads, a.kvHeads = kBlockGroups, a.key = a.value = kHead;
  a.groups = 1, a.ratio = kBlock, a.local = 1, a.topK = blocks;
  a.qStride = a.outStride = kBlockHeads * kHead, a.scale = 0.05f;
  a.q = input<float>(tokens * a.qStride);
  a.out = output<float>(tokens * a.outStride);
  auto *chosen = output<int32_t>(int64_t(tokens) * blocks);
  for (int64_t i = 0; i < int64_t(tokens) * blocks; ++i)
    chosen[i] = int32_t(2 * (i % blocks));
  a.chosen = chosen;
  Step step{tokens, before};
  double pairs = double(tokens) * (blocks * kBlock + (tokens + 1) / 2.0);
  return pairs * a.heads * (2.0 * a.key + 2.0 * a.value + kSoftmaxOps) /
         secondsOfCaches(opKernel, a, &BlockAttentionArgs::kv, type,
                         gqaKvWidth(kBlockGroups, kHead, kHead),
                         before + kBlock, step);
}

} // namespace moert
