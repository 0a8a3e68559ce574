// Arguments of rotary embedding and multi-head latent attention.
#include "kernels/Scratch.h"
#include "runtime/OpReader.h"

#include <algorithm>

namespace moert {
using moek::Encoding;

namespace {
/// [cos | sin] of a step's positions for a rotated part of `dim` elements.
const float *ropeTable(OpReader &r, int64_t dim) {
  BufferRef table = r.buffer("table", Encoding::F32);
  r.require(dim % 2 == 0, "the rotated part has an even size");
  r.rows(table, 1, dim);
  return table.f32();
}

/// A cache whose rows are [latent | rope key].
moek::KvView latentCache(OpReader &r, int64_t latent, int64_t rope) {
  moek::KvView kv = r.cache("kv");
  r.equal("the cache's width", kv.width, "latent + rope", latent + rope);
  return kv;
}

/// What LatentAttention leaves per span: sums of `latent` elements, maximum and
/// sum of each head.
int64_t spanRows(OpReader &r, const BufferRef &buffer, int64_t splits,
                 int64_t heads, int64_t latent) {
  return r.rows(buffer, splits, heads * (latent + 2));
}

/// A matrix [rows, cols] for each head.
moek::WeightView headWeight(OpReader &r, std::string_view operand,
                            std::string_view what, int64_t heads,
                            std::string_view rowName, int64_t rows,
                            std::string_view colName, int64_t cols) {
  moek::WeightView w = r.weight(operand);
  r.equal(fmt::format("the {} weight's head count", what), w.outer, "heads",
          heads);
  r.equal(fmt::format("the {} weight's row count", what), w.rows, rowName,
          rows);
  r.equal(fmt::format("the {} weight's column count", what), w.cols, colName,
          cols);
  return w;
}
} // namespace

const void *bindRope(OpReader &r) {
  moek::RopeArgs args{};
  BufferRef x = r.buffer("x", Encoding::F32);
  args.heads = r.positive("heads");
  args.headStride = r.positive("head_stride");
  args.dim = r.positive("dim");
  args.offset = r.integer("offset", 0, std::max(0, args.headStride - args.dim));
  args.neox = r.boolean("neox");
  r.require(int64_t(args.offset) + args.dim <= args.headStride,
            "the rotated part lies inside a head");
  args.x = x.f32();
  args.stride = r.rows(x, 1, int64_t(args.heads) * args.headStride);
  args.table = ropeTable(r, args.dim);
  return r.keep(args);
}

const void *bindMlaLatent(OpReader &r) {
  moek::MlaLatentArgs args{};
  BufferRef x = r.buffer("x", Encoding::F32);
  args.latent = r.positive("latent");
  args.rope = r.positive("rope");
  args.x = x.f32();
  args.stride = r.rows(x, 1, int64_t(args.latent) + args.rope);
  args.weight = r.vector("weight", args.latent);
  args.table = ropeTable(r, args.rope);
  args.kv = latentCache(r, args.latent, args.rope);
  args.eps = r.real("eps");
  r.require(args.eps >= 0, "eps is not negative");
  return r.keep(args);
}

const void *bindAbsorbQuery(OpReader &r) {
  moek::AbsorbQueryArgs args{};
  BufferRef q = r.buffer("q", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  args.heads = r.positive("heads");
  args.nope = r.positive("nope");
  args.rope = r.positive("rope");
  args.latent = r.positive("latent");
  args.q = q.f32();
  args.qStride =
      r.rows(q, 1, int64_t(args.heads) * (int64_t(args.nope) + args.rope));
  args.w = headWeight(r, "w", "key", args.heads, "nope", args.nope, "latent",
                      args.latent);
  args.out = out.f32();
  args.outStride =
      r.rows(out, 1, int64_t(args.heads) * (int64_t(args.latent) + args.rope));
  return r.keep(args);
}

const void *bindLatentAttention(OpReader &r) {
  moek::LatentAttentionArgs args{};
  BufferRef q = r.buffer("q", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  args.heads = r.positive("heads");
  args.latent = r.positive("latent");
  args.rope = r.positive("rope");
  args.scale = r.real("scale");
  args.q = q.f32();
  args.qStride =
      r.rows(q, 1, int64_t(args.heads) * (int64_t(args.latent) + args.rope));
  args.splits = r.integer("splits", 1, moek::kLatentSplits);
  args.kv = latentCache(r, args.latent, args.rope);
  args.out = out.f32();
  args.outStride = args.splits == 1
                       ? r.rows(out, 1, int64_t(args.heads) * args.latent)
                       : spanRows(r, out, args.splits, args.heads, args.latent);
  return r.keep(args);
}

const void *bindLatentCombine(OpReader &r) {
  moek::LatentCombineArgs args{};
  BufferRef x = r.buffer("x", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  args.heads = r.positive("heads");
  args.latent = r.positive("latent");
  args.splits = r.integer("splits", 2, moek::kLatentSplits);
  args.x = x.f32();
  args.xStride = spanRows(r, x, args.splits, args.heads, args.latent);
  args.out = out.f32();
  args.outStride = r.rows(out, 1, int64_t(args.heads) * args.latent);
  return r.keep(args);
}

const void *bindHeadLinear(OpReader &r) {
  moek::HeadLinearArgs args{};
  BufferRef x = r.buffer("x", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  int64_t heads = r.positive("heads"), rows = r.positive("rows");
  int64_t cols = r.positive("cols");
  args.tail = r.integer("tail", 0, INT32_MAX);
  args.w = headWeight(r, "w", "head", heads, "rows", rows, "cols", cols);
  OwnGemm gemm = r.gemm("w", args.w);
  args.gemm = gemm.function;
  args.encoding = gemm.encoding;
  args.x = x.f32();
  args.xStride = r.rows(x, 1, heads * (cols + args.tail));
  args.out = out.f32();
  args.outStride = r.rows(out, 1, heads * (rows + args.tail));
  return r.keep(args);
}

const void *bindMlaAttention(OpReader &r) {
  moek::MlaAttentionArgs args{};
  BufferRef q = r.buffer("q", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  args.heads = r.positive("heads");
  args.nope = r.positive("nope");
  args.rope = r.positive("rope");
  args.latent = r.positive("latent");
  args.value = r.positive("value");
  args.scale = r.real("scale");
  args.q = q.f32();
  args.qStride =
      r.rows(q, 1, int64_t(args.heads) * (int64_t(args.nope) + args.rope));
  args.kv = latentCache(r, args.latent, args.rope);
  args.wv = headWeight(r, "wv", "value", args.heads, "value", args.value,
                       "latent", args.latent);
  OwnGemm values = r.gemm("wv", args.wv);
  args.valueGemm = values.function;
  args.encoding = values.encoding;
  r.require(r.has("wk") != r.has("wk_transposed"),
            "there is one of wk and wk_transposed");
  if (r.has("wk")) {
    args.wk = headWeight(r, "wk", "key", args.heads, "nope", args.nope,
                         "latent", args.latent);
    OwnGemm keys = r.gemm("wk", args.wk);
    args.keyGemm = keys.function;
    args.encoding = moek::readByBoth(keys.encoding, values.encoding);
    r.require(moek::reads(keys.encoding, args.encoding) &&
                  moek::reads(values.encoding, args.encoding),
              "the gemms of wk and wv read the same encoding");
  } else if (r.has("wk_transposed")) {
    args.wk = headWeight(r, "wk_transposed", "key", args.heads, "latent",
                         args.latent, "nope", args.nope);
  }
  args.out = out.f32();
  args.outStride = r.rows(out, 1, int64_t(args.heads) * args.value);
  return r.keep(args);
}

} // namespace moert
