// Proves what the kernels of sparse attention and residual streams assume about
// operands whose shapes depend on each other.
#include "kernels/Entries.h"
#include "kernels/KvCache.h"
#include "runtime/plan/Verify.h"
#include "runtime/prove/OpProof.h"

#include <algorithm>

namespace moert {
namespace {
/// Proves that each token, and group, has room for a score for every entry of
/// the longest context.
void proveScores(OpProof &p, std::string_view operand, int64_t ratio,
                 int64_t groups = 1) {
  BufferRef scores = p.buffer(operand);
  p.require(scores.perToken() % groups == 0 &&
                scores.perToken() / groups >= p.plan().context() / ratio,
            "there is a score for each entry of a context");
  p.rows(scores, 1, scores.perToken());
}
} // namespace

void proveLayerNorm(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t cols = x.perToken();
  p.require(cols >= 1, "x has at least one row per token");
  p.vector("weight", cols);
  p.vector("bias", cols);
  p.rows(x, 1, cols);
  p.rows(out, 1, cols);
}

void proveRowStore(OpProof &p) {
  BufferRef x = p.buffer("x");
  p.cacheRows("kv", "the rows'", x.perToken(), /*window=*/1);
  p.rows(x, 1, x.perToken());
}

void proveIndexScores(OpProof &p) {
  BufferRef q = p.buffer("q");
  int64_t heads = p.integer("heads"), key = p.integer("key");
  p.rows(q, 1, heads * key);
  if (p.has("weights"))
    p.rows(p.buffer("weights"), 1, heads);
  p.cacheRows("kv", "the rows'", key);
  proveScores(p, "out", p.integer("ratio"));
}

void proveIndexSelect(OpProof &p) {
  BufferRef chosen = p.buffer("chosen");
  int64_t groups = p.integer("groups");
  p.rows(chosen, 1, groups * p.integer("top_k"));
  proveScores(p, "scores", p.integer("ratio"), groups);
}

void proveBlockMaxima(OpProof &p) {
  int64_t ratio = p.integer("ratio"), size = p.integer("size");
  p.require(ratio % size == 0, "size divides ratio");
  proveScores(p, "scores", ratio / size);
  proveScores(p, "out", ratio);
}

/// verifyDataflow() checks that `chosen` comes from an index_select with the
/// same top_k and ratio, before the last block.
void proveKeepBlocks(OpProof &p) {
  int64_t ratio = p.integer("ratio"), size = p.integer("size");
  p.require(ratio % size == 0, "size divides ratio");
  proveScores(p, "scores", ratio / size);
  proveScores(p, "out", ratio / size);
  p.rows(p.buffer("out"), 1, p.buffer("scores").perToken());
  p.rows(p.buffer("chosen"), 1, p.integer("top_k"));
}

void proveBlockScores(OpProof &p) {
  int64_t groups = p.integer("groups"), key = p.integer("key");
  p.rows(p.buffer("q"), 1, groups * key);
  p.cacheRows("kv", "the rows'", key);
  proveScores(p, "out", p.integer("ratio"), groups);
}

/// verifyDataflow() checks that `chosen` comes from an index_select with the
/// same top_k and ratio.
void proveBlockAttention(OpProof &p) {
  int64_t heads = p.integer("heads"), kvHeads = p.integer("kv_heads");
  int64_t key = p.integer("key"), value = p.integer("value");
  int64_t groups = p.integer("groups");
  p.require(heads % kvHeads == 0, "kv_heads divides heads");
  p.require(groups == 1 || groups == kvHeads,
            "there is one group of choices, or one for each head of keys");
  p.cacheRows("kv", "the heads'", moek::gqaKvWidth(kvHeads, key, value));
  p.rows(p.buffer("chosen"), 1, groups * p.integer("top_k"));
  p.rows(p.buffer("q"), 1, heads * key);
  p.rows(p.buffer("out"), 1, heads * value);
}

/// verifyDataflow() checks that `chosen` comes from an index_select with the
/// same top_k and ratio.
void proveSparseAttention(OpProof &p) {
  BufferRef q = p.buffer("q");
  BufferRef out = p.buffer("out");
  int64_t heads = p.integer("heads"), key = p.integer("key");
  int64_t value = p.integer("value", 1, key);
  bool hasRows = p.has("kv"), hasEntries = p.has("entries");
  int32_t window = p.integer("window", hasRows, hasRows ? INT32_MAX : 0);
  int32_t ratio = p.integer("ratio", hasEntries, hasEntries ? INT32_MAX : 0);
  p.require(hasRows || ratio == 1, "a token sees at least one row");
  p.require(hasEntries || !p.has("chosen"), "chosen requires entries");
  p.integer("top_k", p.has("chosen"), p.has("chosen") ? kMaxParameter : 0);
  p.integer("pool", 1, p.has("chosen") ? kMaxParameter : 1);
  if (hasRows)
    p.cacheRows("kv", "the rows'", key, window);
  if (hasEntries)
    p.cacheRows("entries", "the rows'", key);
  if (p.has("chosen"))
    p.rows(p.buffer("chosen"), 1, p.integer("top_k"));
  p.vector("sinks", heads);
  p.rows(q, 1, heads * key);
  p.rows(out, 1, heads * value);
}

void proveCompress(OpProof &p) {
  BufferRef kv = p.buffer("kv");
  BufferRef out = p.buffer("out");
  int64_t cols = out.perToken(), ratio = p.integer("ratio");
  bool overlap = p.boolean("overlap");
  p.require(cols >= 1, "out has at least one row per token");
  int64_t width = overlap ? 2 * cols : cols;
  p.rows(kv, 1, width);
  p.require(p.has("gate") || !p.has("ape"), "ape comes with a gate");
  if (p.has("gate"))
    p.rows(p.buffer("gate"), 1, width);
  p.rows(out, 1, cols);
  if (p.has("ape"))
    p.vectors("ape", ratio, width);
  p.state("state", moek::compressStateWidth(cols, overlap));
}

void proveEntryStore(OpProof &p) {
  BufferRef x = p.buffer("x");
  int64_t cols = x.perToken();
  int64_t dim = 2 * int64_t(p.constant("inv_freq").size());
  int64_t tail = p.integer("tail");
  p.require(cols >= 1 && tail <= cols && dim <= cols - tail,
            "the rotated part lies inside a row");
  p.vector("weight", cols);
  p.rows(x, 1, cols);
  p.cacheRows("kv", "the rows'", cols);
}

void proveHyperWeights(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t streams = p.integer("streams");
  int64_t cols = x.perToken();
  bool readsOnly = cols == streams;
  p.require(readsOnly || cols == streams * (streams + 2),
            "x has a column for each weight");
  p.vector("scale", readsOnly ? 1 : 3);
  p.vector("base", cols);
  p.rows(x, 1, cols);
  p.rows(out, 1, cols);
}

void proveHyperCollapse(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t streams = p.integer("streams");
  p.rows(x, 1, streams * out.perToken());
  if (p.has("weights")) {
    BufferRef weights = p.buffer("weights");
    p.require(weights.perToken() >= streams, "each stream has a weight");
    p.rows(weights, 1, weights.perToken());
  }
  p.rows(out, 1, out.perToken());
}

void proveHyperSpread(OpProof &p) {
  BufferRef y = p.buffer("y");
  BufferRef out = p.buffer("out");
  int64_t streams = p.integer("streams");
  p.rows(y, 1, y.perToken());
  p.rows(out, 1, streams * y.perToken());
  p.require(p.has("x") == p.has("weights"),
            "x and weights are both present or both absent");
  if (!p.has("x") || !p.has("weights"))
    return;
  p.rows(p.buffer("x"), 1, streams * y.perToken());
  p.rows(p.buffer("weights"), 1, streams * (streams + 2));
}

void proveResidualMix(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t cols = x.perToken();
  p.require(cols >= 1, "x has at least one row per token");
  p.rows(x, 1, cols);
  p.rows(p.buffer("stack"), 1, p.integer("count") * cols);
  p.vector("weight", cols);
  p.rows(out, 1, cols);
}

void proveConcat(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef y = p.buffer("y");
  p.rows(x, 1, x.perToken());
  p.rows(y, 1, y.perToken());
  p.rows(p.buffer("out"), 1, x.perToken() + y.perToken());
}

} // namespace moert
