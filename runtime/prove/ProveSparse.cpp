// What attention to chosen rows and residual streams assume.
#include "kernels/SparseArgs.h"
#include "runtime/plan/Verify.h"
#include "runtime/prove/OpProof.h"

#include <algorithm>

namespace moert {
using moek::Encoding;

namespace {
/// Scores of a token's entries: as many as a context has.
void proveScores(OpProof &p, std::string_view operand, int64_t ratio) {
  BufferRef scores = p.buffer(operand, Encoding::F32);
  p.require(scores.perToken() >= p.plan().context() / ratio,
            "there is a score for each entry of a context");
  p.rows(scores, 1, scores.perToken());
}
} // namespace

void proveLayerNorm(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t cols = x.perToken();
  p.require(cols >= 1, "x has rows per token");
  p.vector("weight", cols);
  p.vector("bias", cols);
  p.rows(x, 1, cols);
  p.rows(out, 1, cols);
  p.require(p.real("eps") >= 0, "eps is not negative");
}

void proveRowStore(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  p.cacheRows("kv", "the rows'", x.perToken(), /*window=*/1);
  p.rows(x, 1, x.perToken());
}

void proveIndexScores(OpProof &p) {
  BufferRef q = p.buffer("q", Encoding::F32);
  BufferRef weights = p.buffer("weights", Encoding::F32);
  int64_t heads = p.positive("heads"), key = p.positive("key");
  p.real("scale");
  p.rows(q, 1, heads * key);
  p.rows(weights, 1, heads);
  p.cacheRows("kv", "the rows'", key);
  proveScores(p, "out", p.positive("ratio"));
}

void proveIndexSelect(OpProof &p) {
  BufferRef chosen = p.buffer("chosen", Encoding::I32);
  p.rows(chosen, 1, p.positive("top_k"));
  proveScores(p, "scores", p.positive("ratio"));
}

/// That `chosen` is of entries of this ratio, and so many, verifyDataflow()
/// checks.
void proveSparseAttention(OpProof &p) {
  BufferRef q = p.buffer("q", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t heads = p.positive("heads"), key = p.positive("key");
  int64_t value = p.integer("value", 1, key);
  bool hasRows = p.has("kv"), hasEntries = p.has("entries");
  p.real("scale");
  int32_t window = p.integer("window", hasRows, hasRows ? INT32_MAX : 0);
  int32_t ratio = p.integer("ratio", hasEntries, hasEntries ? INT32_MAX : 0);
  p.require(hasRows || ratio == 1, "a token sees a row at least");
  p.require(hasEntries || !p.has("chosen"), "chosen are entries");
  p.integer("top_k", p.has("chosen"), p.has("chosen") ? kMaxParameter : 0);
  if (hasRows)
    p.cacheRows("kv", "the rows'", key, window);
  if (hasEntries)
    p.cacheRows("entries", "the rows'", key);
  if (p.has("chosen"))
    p.rows(p.buffer("chosen", Encoding::I32), 1, p.positive("top_k"));
  p.vector("sinks", heads);
  p.rows(q, 1, heads * key);
  p.rows(out, 1, heads * value);
}

void proveCompress(OpProof &p) {
  BufferRef kv = p.buffer("kv", Encoding::F32);
  BufferRef gate = p.buffer("gate", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t cols = out.perToken(), ratio = p.positive("ratio");
  bool overlap = p.boolean("overlap");
  p.require(cols >= 1, "out has rows per token");
  int64_t width = overlap ? 2 * cols : cols;
  p.rows(kv, 1, width);
  p.rows(gate, 1, width);
  p.rows(out, 1, cols);
  p.vectors("ape", ratio, width);
  p.state("state", moek::compressStateWidth(cols, overlap));
}

void proveEntryStore(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  int64_t cols = x.perToken();
  int64_t dim = 2 * int64_t(p.constant("inv_freq").size());
  p.positive("ratio");
  p.require(p.real("eps") >= 0, "eps is not negative");
  p.require(cols >= 1 && dim <= cols, "the rotated part lies inside a row");
  p.require((cols - dim) % 2 == 0, "the rotated part begins with a pair");
  p.vector("weight", cols);
  p.rows(x, 1, cols);
  p.cacheRows("kv", "the rows'", cols);
}

void proveHyperWeights(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t streams = p.integer("streams", 1, moek::kMaxStreams);
  int64_t cols = x.perToken();
  bool readsOnly = cols == streams;
  p.positive("iterations");
  p.require(p.real("eps") >= 0, "eps is not negative");
  p.require(readsOnly || cols == streams * (streams + 2),
            "x has a column for each weight");
  p.vector("scale", readsOnly ? 1 : 3);
  p.vector("base", cols);
  p.rows(x, 1, cols);
  p.rows(out, 1, cols);
}

void proveHyperCollapse(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  BufferRef weights = p.buffer("weights", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t streams = p.integer("streams", 1, moek::kMaxStreams);
  p.require(weights.perToken() >= streams, "each stream has a weight");
  p.rows(x, 1, streams * out.perToken());
  p.rows(weights, 1, weights.perToken());
  p.rows(out, 1, out.perToken());
}

void proveHyperSpread(OpProof &p) {
  BufferRef y = p.buffer("y", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t streams = p.integer("streams", 1, moek::kMaxStreams);
  p.rows(y, 1, y.perToken());
  p.rows(out, 1, streams * y.perToken());
  p.require(p.has("x") == p.has("weights"),
            "there are streams and weights, or neither");
  if (!p.has("x") || !p.has("weights"))
    return;
  p.rows(p.buffer("x", Encoding::F32), 1, streams * y.perToken());
  p.rows(p.buffer("weights", Encoding::F32), 1, streams * (streams + 2));
}

} // namespace moert
