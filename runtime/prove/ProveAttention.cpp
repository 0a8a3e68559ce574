// What rotary embedding and attention assume.
#include "kernels/Scratch.h" // kMostKvSplits
#include "runtime/prove/OpProof.h"

#include <algorithm>

namespace moert {
using moek::Encoding;

namespace {
/// [cos | sin] of a step's positions for a rotated part of `dim` elements.
void proveTable(OpProof &p, int64_t dim) {
  BufferRef table = p.buffer("table", Encoding::F32);
  p.require(dim % 2 == 0, "the rotated part has an even size");
  p.rows(table, 1, dim);
}

/// A cache whose rows are [latent | rope key].
void proveLatentCache(OpProof &p, int64_t latent, int64_t rope) {
  p.cacheRows("kv", "latent + rope", latent + rope);
}

/// One whose rows are keys and values of heads, of which a token sees the last
/// `window`; 0: all.
void proveGroupedCache(OpProof &p, int64_t heads, int64_t key, int64_t value,
                       int64_t window) {
  p.cacheRows("kv", "that of its heads' keys and values",
              moek::gqaKvWidth(heads, key, value), window);
}

/// What LatentAttention and Attention leave per span: sums of `latent`
/// elements, maximum and sum of each head.
void proveSpans(OpProof &p, const BufferRef &buffer, int64_t splits,
                int64_t heads, int64_t latent) {
  p.rows(buffer, splits, heads * (latent + 2));
}

/// A matrix [rows, cols] for each head.
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
  BufferRef x = p.buffer("x", Encoding::F32);
  int32_t heads = p.positive("heads");
  int32_t headStride = p.positive("head_stride");
  int32_t dim = p.positive("dim");
  int32_t offset = p.integer("offset", 0, std::max(0, headStride - dim));
  p.boolean("neox");
  p.require(int64_t(offset) + dim <= headStride,
            "the rotated part lies inside a head");
  p.rows(x, 1, int64_t(heads) * headStride);
  proveTable(p, dim);
}

void proveMlaLatent(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  int64_t latent = p.positive("latent"), rope = p.positive("rope");
  p.rows(x, 1, latent + rope);
  p.vector("weight", latent);
  proveTable(p, rope);
  proveLatentCache(p, latent, rope);
  p.require(p.real("eps") >= 0, "eps is not negative");
}

void proveAbsorbQuery(OpProof &p) {
  BufferRef q = p.buffer("q", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t heads = p.positive("heads"), nope = p.positive("nope");
  int64_t rope = p.positive("rope"), latent = p.positive("latent");
  p.rows(q, 1, heads * (nope + rope));
  proveHeadWeight(p, "w", "key", heads, "nope", nope, "latent", latent);
  p.rows(out, 1, heads * (latent + rope));
}

void proveLatentAttention(OpProof &p) {
  BufferRef q = p.buffer("q", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t heads = p.positive("heads"), latent = p.positive("latent");
  int64_t rope = p.positive("rope");
  p.real("scale");
  p.rows(q, 1, heads * (latent + rope));
  int32_t splits = p.integer("splits", 1, moek::kMostKvSplits);
  proveLatentCache(p, latent, rope);
  if (splits == 1)
    p.rows(out, 1, heads * latent);
  else
    proveSpans(p, out, splits, heads, latent);
}

void proveLatentCombine(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t heads = p.positive("heads"), latent = p.positive("latent");
  proveSpans(p, x, p.integer("splits", 2, moek::kMostKvSplits), heads, latent);
  p.integer("window", 0, INT32_MAX);
  p.rows(out, 1, heads * latent);
}

void proveKvStore(OpProof &p) {
  BufferRef k = p.buffer("k", Encoding::F32), v = p.buffer("v", Encoding::F32);
  int64_t heads = p.positive("heads"), key = p.positive("key");
  int64_t value = p.positive("value");
  p.rows(k, 1, heads * key);
  p.rows(v, 1, heads * value);
  proveGroupedCache(p, heads, key, value, /*window=*/1);
}

void proveAttention(OpProof &p) {
  BufferRef q = p.buffer("q", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t heads = p.positive("heads"), kvHeads = p.positive("kv_heads");
  int64_t key = p.positive("key"), value = p.positive("value");
  p.require(heads % kvHeads == 0, "kv_heads divide the heads");
  p.real("scale");
  p.require(p.real("softcap") >= 0, "softcap is not negative");
  int32_t window = p.integer("window", 0, INT32_MAX);
  p.vector("sinks", heads);
  p.rows(q, 1, heads * key);
  proveGroupedCache(p, kvHeads, key, value, window);
  int32_t splits = p.integer("splits", 1, moek::kMostKvSplits);
  if (splits == 1)
    p.rows(out, 1, heads * value);
  else
    proveSpans(p, out, splits, heads, value);
}

void proveHeadLinear(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t heads = p.positive("heads"), rows = p.positive("rows");
  int64_t cols = p.positive("cols");
  int64_t tail = p.integer("tail", 0, INT32_MAX);
  proveHeadWeight(p, "w", "head", heads, "rows", rows, "cols", cols);
  p.gemm("w");
  p.rows(x, 1, heads * (cols + tail));
  p.rows(out, 1, heads * (rows + tail));
}

void proveMlaAttention(OpProof &p) {
  BufferRef q = p.buffer("q", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t heads = p.positive("heads"), nope = p.positive("nope");
  int64_t rope = p.positive("rope"), latent = p.positive("latent");
  int64_t value = p.positive("value");
  p.real("scale");
  p.rows(q, 1, heads * (nope + rope));
  proveLatentCache(p, latent, rope);
  proveHeadWeight(p, "wv", "value", heads, "value", value, "latent", latent);
  Encoding values = p.gemm("wv");
  p.require(p.has("wk") != p.has("wk_transposed"),
            "there is one of wk and wk_transposed");
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
