//===- OpsSparse.cpp - Benchmarks of sparse attention kernels -------------===//
//
// DeepSeek-V3.2's indexer, which chooses rows, and attention to these rows; and
// DeepSeek-V4-Flash's attention, whose cache entries stand for 4 or 128
// positions. `ops` is defined as in OpsDense.cpp. Bytes are the cache rows that
// a step needs, each counted once; for kernels without a cache, all that they
// read and write.
//
//===----------------------------------------------------------------------===//

#include "kernels/Entries.h"
#include "test/bench/OpWork.h"

#include <set>

namespace moek::bench {

namespace {

/// Shape of the indexer in both models.
constexpr int32_t kIndexHeads = 64, kIndexKey = 128;
constexpr int32_t kIndexTopK = 2048;
constexpr int32_t kV32Heads = 128;
/// A single KV head whose keys are also the values.
constexpr int32_t kV4Heads = 64, kV4Key = 512, kV4TopK = 512, kV4Window = 128;

/// Returns the number of entries that token `t` of the step sees.
int64_t entriesOf(Step step, int32_t t, int32_t ratio) {
  return (step.position + t + 1) / ratio;
}
int64_t entriesOf(Step step, int32_t ratio) {
  return entriesOf(step, step.tokens - 1, ratio);
}

Work indexScores(Arena &arena, Step step, int32_t ratio) {
  IndexScoresArgs a{};
  a.heads = kIndexHeads, a.key = kIndexKey, a.ratio = ratio, a.scale = 0.011f;
  a.qStride = kIndexHeads * kIndexKey, a.weightsStride = kIndexHeads;
  a.outStride = entriesOf(step, ratio);
  a.q = arena.floats(step.tokens * a.qStride);
  a.weights = arena.floats(step.tokens * a.weightsStride);
  a.out = arena.make<float>(step.tokens * a.outStride);
  a.kv = cache(arena, step, KvType::Q8_0, kIndexKey);
  double pairs = 0;
  for (int32_t t = 0; t < step.tokens; ++t)
    pairs += double(entriesOf(step, t, ratio));
  // Per head: a dot product, then ReLU, weight and sum.
  return {keep(a), size_t(indexScoresScratchBytes(kIndexHeads, kIndexKey)),
          pairs * kIndexHeads * (2 * kIndexKey + 3),
          double(a.outStride * a.kv.rowStride)};
}

/// Returns random choices for each token among the entries that it sees, in the
/// format of IndexSelect.
const int32_t *choices(Arena &arena, Step step, int32_t ratio, int32_t topK) {
  auto *chosen = arena.make<int32_t>(int64_t(step.tokens) * topK);
  std::fill_n(chosen, int64_t(step.tokens) * topK, -1);
  std::mt19937 random(5);
  for (int32_t t = 0; t < step.tokens; ++t) {
    std::vector<int32_t> entries(size_t(entriesOf(step, t, ratio)));
    for (size_t e = 0; e < entries.size(); ++e)
      entries[e] = int32_t(e);
    std::sample(entries.begin(), entries.end(), chosen + int64_t(t) * topK,
                topK, random);
  }
  return chosen;
}

/// Fills in the rest of `a`: heads, widths, window, ratio and topK (0: all
/// entries) are given.
Work sparseAttention(Arena &arena, Step step, KvType type,
                     SparseAttentionArgs a) {
  a.scale = 0.05f;
  a.qStride = a.heads * a.key, a.outStride = a.heads * a.value;
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.make<float>(step.tokens * a.outStride);
  // Rows and entries that at least one token sees.
  std::set<int32_t> rows, entries;
  double pairs = 0;
  a.entries = cache(arena, step, type, a.key);
  if (a.topK > 0)
    a.chosen = choices(arena, step, a.ratio, a.topK);
  for (int32_t t = 0; t < step.tokens; ++t) {
    auto count = int32_t(entriesOf(step, t, a.ratio));
    if (a.topK > 0)
      count = std::min(count, a.topK);
    for (int32_t i = 0; i < count; ++i)
      entries.insert(a.chosen ? a.chosen[int64_t(t) * a.topK + i] : i);
    int32_t last = step.position + t;
    int32_t first = std::max(0, last + 1 - a.window);
    for (int32_t p = first; p <= last; ++p)
      rows.insert(p);
    pairs += count + (last + 1 - first);
  }
  if (a.window > 0) {
    a.kv = cache(arena, step, type, a.key);
    a.sinks = arena.floats(a.heads);
  }
  return {keep(a), size_t(sparseAttentionScratchBytes(a.heads, a.key)),
          2 * pairs * a.heads * (a.key + a.value),
          double(rows.size() + entries.size()) * double(a.entries.rowStride)};
}

Work latentOfChosen(Arena &arena, Step step, KvType type) {
  SparseAttentionArgs a{};
  a.heads = kV32Heads, a.key = kLatent + kRope, a.value = kLatent;
  a.ratio = a.pool = 1, a.topK = kIndexTopK;
  return sparseAttention(arena, step, type, a);
}

Work windowAnd(Arena &arena, Step step, int32_t ratio, int32_t topK) {
  SparseAttentionArgs a{};
  a.heads = kV4Heads, a.key = a.value = kV4Key, a.window = kV4Window;
  a.ratio = ratio, a.topK = topK, a.pool = 1;
  return sparseAttention(arena, step, KvType::Q8_0, a);
}

} // namespace

/// Normalises the indexer's keys.
Work layerNorm(Arena &arena, Isa, Step step) {
  LayerNormArgs a{};
  a.cols = a.xStride = a.outStride = kIndexKey, a.eps = 1e-6f;
  a.x = arena.floats(step.tokens * kIndexKey);
  a.weight = arena.floats(kIndexKey), a.bias = arena.floats(kIndexKey);
  a.out = arena.make<float>(step.tokens * kIndexKey);
  // Mean: a sum; variance: difference, square, sum; then two products and a
  // sum.
  double values = double(step.tokens) * kIndexKey;
  return {keep(a), 0, 7 * values, 8 * values + 8.0 * kIndexKey};
}

/// Stores the indexer's keys.
Work rowStore(Arena &arena, Isa, Step step) {
  RowStoreArgs a{};
  a.xStride = kIndexKey, a.ratio = 1;
  a.x = arena.floats(step.tokens * kIndexKey);
  a.kv = cache(arena, step, KvType::Q8_0, kIndexKey);
  // The operations are: maximum, product and sum.
  double values = double(step.tokens) * kIndexKey;
  return {keep(a), 0, 3 * values, 5 * values};
}

/// Stores the entries that a step completes; each step here completes at least
/// one.
Work entryStore(Arena &arena, Isa, Step step) {
  EntryStoreArgs a{};
  a.cols = a.xStride = kV4Key, a.dim = kRope, a.ratio = 4, a.eps = 1e-6f;
  a.x = arena.floats(step.tokens * kV4Key);
  a.weight = arena.floats(kV4Key);
  auto *frequencies = arena.make<float>(kRope / 2);
  for (int32_t i = 0; i < kRope / 2; ++i)
    frequencies[i] = 1.0f / float(i + 1);
  a.invFreq = frequencies;
  a.kv = cache(arena, step, KvType::Q8_0, kV4Key);
  double entries = double(entriesOf(step, a.ratio) - step.position / a.ratio);
  // Operations of RmsNorm and RowStore; per rotated pair an angle, its cosine
  // and sine, four products and two sums.
  return {keep(a), 0, entries * (7.0 * kV4Key + 4.5 * kRope),
          entries * 5 * kV4Key};
}

Work indexScoresOfRows(Arena &arena, Isa, Step step) {
  return indexScores(arena, step, 1);
}

Work indexScoresOfEntries(Arena &arena, Isa, Step step) {
  return indexScores(arena, step, 4);
}

/// MiniMax-M3: blocks of 128 positions for each of four heads of keys, of which
/// 15 are chosen beside the token's own.
constexpr int32_t kBlockGroups = 4, kBlockHeads = 64, kBlockKey = 128;
constexpr int32_t kBlockRatio = 128, kBlockTopK = 15;

Work blockScores(Arena &arena, Isa, Step step) {
  BlockScoresArgs a{};
  a.groups = kBlockGroups, a.key = kBlockKey, a.ratio = kBlockRatio;
  a.local = 1;
  a.qStride = kBlockGroups * kBlockKey;
  a.outStride = entriesOf(step, kBlockRatio) + 1;
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.make<float>(step.tokens * kBlockGroups * a.outStride);
  a.kv = cache(arena, step, KvType::F16, kBlockKey);
  double pairs = 0;
  for (int32_t t = 0; t < step.tokens; ++t)
    pairs += double(entriesSeen(step.position + t, a.ratio, 1)) * a.ratio;
  return {keep(a), size_t(indexScoresScratchBytes(kBlockGroups, kBlockKey)),
          pairs * kBlockGroups * (2 * kBlockKey + 1),
          pairs / step.tokens * double(a.kv.rowStride)};
}

Work blockAttention(Arena &arena, Isa, Step step) {
  BlockAttentionArgs a{};
  a.heads = kBlockHeads, a.kvHeads = kBlockGroups;
  a.key = a.value = kBlockKey;
  a.groups = kBlockGroups, a.ratio = kBlockRatio, a.topK = kBlockTopK;
  a.local = 1, a.scale = 0.05f;
  a.qStride = a.outStride = int64_t(kBlockHeads) * kBlockKey;
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.make<float>(step.tokens * a.outStride);
  a.kv = cache(arena, step, KvType::F16,
               gqaKvWidth(kBlockGroups, kBlockKey, kBlockKey));
  // Every token chooses the same blocks, the last ones before its own.
  auto *chosen =
      arena.make<int32_t>(int64_t(step.tokens) * kBlockGroups * kBlockTopK);
  double rows = 0;
  for (int32_t t = 0; t < step.tokens; ++t) {
    int64_t seen = entriesSeen(step.position + t, a.ratio, 1);
    int64_t n = std::min<int64_t>(seen, kBlockTopK);
    for (int64_t i = 0; i < kBlockGroups * kBlockTopK; ++i) {
      int64_t own = i % kBlockTopK;
      chosen[t * kBlockGroups * kBlockTopK + i] =
          own < n ? int32_t(seen - n + own) : -1;
    }
    rows += double(n * a.ratio + step.position + t + 1 - seen * a.ratio);
  }
  a.chosen = chosen;
  return {keep(a), size_t(blockAttentionScratchBytes(a.heads, a.key, a.value)),
          rows * kBlockHeads * (4.0 * kBlockKey + 5),
          rows / step.tokens * double(a.kv.rowStride)};
}

Work indexSelect(Arena &arena, Isa, Step step) {
  IndexSelectArgs a{};
  a.topK = kIndexTopK, a.ratio = a.groups = 1;
  a.scoresStride = entriesOf(step, 1);
  a.scores = arena.floats(step.tokens * a.scoresStride);
  a.chosen = arena.make<int32_t>(int64_t(step.tokens) * kIndexTopK);
  double scores = 0;
  for (int32_t t = 0; t < step.tokens; ++t)
    if (entriesOf(step, t, 1) > kIndexTopK)
      scores += double(entriesOf(step, t, 1));
  // Each score is counted by three digits, then compared.
  return {keep(a), size_t(indexSelectScratchBytes()), 4 * scores,
          4 * scores + 4.0 * step.tokens * kIndexTopK};
}

namespace {
constexpr int32_t kBlock = 64, kCandidates = 64;

/// The scores of the entries that a step's tokens see.
double scoresOf(Step step) {
  double scores = 0;
  for (int32_t t = 0; t < step.tokens; ++t)
    scores += double(entriesOf(step, t, 1));
  return scores;
}
} // namespace

Work blockMaxima(Arena &arena, Isa, Step step) {
  BlockMaximaArgs a{};
  a.ratio = a.size = kBlock;
  a.scoresStride = entriesOf(step, 1), a.outStride = a.scoresStride / kBlock;
  a.scores = arena.floats(step.tokens * a.scoresStride);
  a.out = arena.make<float>(step.tokens * a.outStride);
  return {keep(a), 0, scoresOf(step), 4 * scoresOf(step)};
}

/// Each token keeps its first blocks.
Work keepBlocks(Arena &arena, Isa, Step step) {
  KeepBlocksArgs a{};
  a.ratio = a.size = kBlock, a.topK = kCandidates - 1;
  a.scoresStride = entriesOf(step, 1);
  a.scores = arena.floats(step.tokens * a.scoresStride);
  a.out = arena.make<float>(step.tokens * a.scoresStride);
  auto *chosen = arena.make<int32_t>(int64_t(step.tokens) * a.topK);
  for (int64_t i = 0; i < int64_t(step.tokens) * a.topK; ++i)
    chosen[i] =
        int32_t(i % a.topK) < step.position / kBlock ? int32_t(i % a.topK) : -1;
  a.chosen = chosen;
  return {keep(a), 0, scoresOf(step),
          4 * scoresOf(step) + 8.0 * step.tokens * kCandidates * kBlock};
}

Work latentOfChosenF16(Arena &arena, Isa, Step step) {
  return latentOfChosen(arena, step, KvType::F16);
}

Work latentOfChosenQ8(Arena &arena, Isa, Step step) {
  return latentOfChosen(arena, step, KvType::Q8_0);
}

Work windowAndChosen(Arena &arena, Isa, Step step) {
  return windowAnd(arena, step, 4, kV4TopK);
}

Work windowAndEntries(Arena &arena, Isa, Step step) {
  return windowAnd(arena, step, 128, 0);
}

} // namespace moek::bench
