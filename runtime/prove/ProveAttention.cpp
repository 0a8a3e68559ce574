// Proves what the kernels of rotary embedding and attention assume about
// operands whose shapes depend on each other.
#include "runtime/prove/OpProof.h"

#include <algorithm>

namespace moert {
using moek::Encoding;

namespace {
/// Proves that the table has a row [cos | sin] for each position of a step, for
/// a rotated part of `dim` elements.
void proveTable(OpProof &p, int64_t dim) {
  BufferRef table = p.buffer("table");
  p.require(dim % 2 == 0, "the rotated part has an even size");
  p.rows(table, 1, dim);
}

/// Proves that each row of the cache is [latent | rope key].
void proveLatentCache(OpProof &p, int64_t latent, int64_t rope) {
  p.cacheRows("kv", "latent + rope", latent + rope);
}

/// Proves that each row of the cache has the keys and values of all heads. A
/// token sees the last `window` rows, or all rows if `window` is 0.
void proveGroupedCache(OpProof &p, int64_t heads, int64_t key, int64_t value,
                       int64_t window) {
  p.cacheRows("kv", "that of its heads' keys and values",
              moek::gqaKvWidth(heads, key, value), window);
}

/// Proves that `buffer` has room for the partial results of LatentAttention or
/// Attention: for each token, KV split and head, `latent` weighted sums and the
/// maximum and sum of the softmax.
void proveSpans(OpProof &p, const BufferRef &buffer, int64_t splits,
                int64_t heads, int64_t latent) {
  p.rows(buffer, splits, heads * (latent + 2));
}

/// Proves that the weight has a matrix [rows, cols] for each head.
void proveHeadWeight(OpProof &p, std::string_view operand,
                     std::string_view what, int64_t heads,
                     std::string_view rowName, int64_t rows,
                     std::string_view colName, int64_t cols) {
  const fb::Weight &w = p.weight(operand);
  p.equal(fmt::format("the {} weight's head count", what), w.outer(), "heads",
          heads);
  p.equal(fmt::format("the {} weight's row count", what), w.rows(), rowName,
          rows);
  p.equal(fmt::format("the {} weight's column count", what), w.cols(), colName,
          cols);
}
} // namespace

void proveRope(OpProof &p) {
  BufferRef x = p.buffer("x");
  int32_t heads = p.integer("heads");
  int32_t headStride = p.integer("head_stride");
  int32_t dim = p.integer("dim");
  int32_t offset = p.integer("offset", 0, std::max(0, headStride - dim));
  p.require(int64_t(offset) + dim <= headStride,
            "the rotated part lies inside a head");
  p.rows(x, 1, int64_t(heads) * headStride);
  proveTable(p, dim);
}

void proveMlaLatent(OpProof &p) {
  BufferRef x = p.buffer("x");
  int64_t latent = p.integer("latent"), rope = p.integer("rope");
  p.rows(x, 1, latent + rope);
  p.vector("weight", latent);
  proveTable(p, rope);
  proveLatentCache(p, latent, rope);
}

void proveAbsorbQuery(OpProof &p) {
  BufferRef q = p.buffer("q");
  BufferRef out = p.buffer("out");
  int64_t heads = p.integer("heads"), nope = p.integer("nope");
  int64_t rope = p.integer("rope"), latent = p.integer("latent");
  p.rows(q, 1, heads * (nope + rope));
  proveHeadWeight(p, "w", "key", heads, "nope", nope, "latent", latent);
  p.rows(out, 1, heads * (latent + rope));
}

void proveLatentAttention(OpProof &p) {
  BufferRef q = p.buffer("q");
  BufferRef out = p.buffer("out");
  int64_t heads = p.integer("heads"), latent = p.integer("latent");
  int64_t rope = p.integer("rope");
  p.rows(q, 1, heads * (latent + rope));
  int32_t splits = p.integer("splits");
  proveLatentCache(p, latent, rope);
  if (splits == 1)
    p.rows(out, 1, heads * latent);
  else
    proveSpans(p, out, splits, heads, latent);
}

void proveCombineSplits(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t heads = p.integer("heads"), latent = p.integer("latent");
  proveSpans(p, x, p.integer("splits"), heads, latent);
  p.rows(out, 1, heads * latent);
}

void proveKvStore(OpProof &p) {
  BufferRef k = p.buffer("k"), v = p.buffer("v");
  int64_t heads = p.integer("heads"), key = p.integer("key");
  int64_t value = p.integer("value");
  p.rows(k, 1, heads * key);
  p.rows(v, 1, heads * value);
  proveGroupedCache(p, heads, key, value, /*window=*/1);
}

void proveAttention(OpProof &p) {
  BufferRef q = p.buffer("q");
  BufferRef out = p.buffer("out");
  int64_t heads = p.integer("heads"), kvHeads = p.integer("kv_heads");
  int64_t key = p.integer("key"), value = p.integer("value");
  p.require(heads % kvHeads == 0, "kv_heads divide the heads");
  int32_t window = p.integer("window");
  p.vector("sinks", heads);
  p.rows(q, 1, heads * key);
  proveGroupedCache(p, kvHeads, key, value, window);
  int32_t splits = p.integer("splits");
  if (splits == 1)
    p.rows(out, 1, heads * value);
  else
    proveSpans(p, out, splits, heads, value);
}

void proveHeadLinear(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t heads = p.integer("heads"), rows = p.integer("rows");
  int64_t cols = p.integer("cols");
  int64_t tail = p.integer("tail");
  proveHeadWeight(p, "w", "head", heads, "rows", rows, "cols", cols);
  p.gemm("w");
  p.rows(x, 1, heads * (cols + tail));
  p.rows(out, 1, heads * (rows + tail));
}

void proveMlaAttention(OpProof &p) {
  BufferRef q = p.buffer("q");
  BufferRef out = p.buffer("out");
  int64_t heads = p.integer("heads"), nope = p.integer("nope");
  int64_t rope = p.integer("rope"), latent = p.integer("latent");
  int64_t value = p.integer("value");
  p.rows(q, 1, heads * (nope + rope));
  proveLatentCache(p, latent, rope);
  proveHeadWeight(p, "wv", "value", heads, "value", value, "latent", latent);
  Encoding values = p.gemm("wv");
  p.require(p.has("wk") != p.has("wk_transposed"),
            "exactly one of wk and wk_transposed is present");
  if (p.has("wk")) {
    proveHeadWeight(p, "wk", "key", heads, "nope", nope, "latent", latent);
    Encoding keys = p.gemm("wk"), both = moek::readByBoth(keys, values);
    p.require(moek::reads(keys, both) && moek::reads(values, both),
              "the gemms of wk and wv read the same encoding");
  } else if (p.has("wk_transposed")) {
    proveHeadWeight(p, "wk_transposed", "key", heads, "latent", latent, "nope",
                    nope);
  }
  p.rows(out, 1, heads * value);
}

} // namespace moert
