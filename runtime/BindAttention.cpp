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

/// W_UK: [heads, nope, latent], or [heads, latent, nope] when transposed.
moek::WeightView keyWeight(OpReader &r, std::string_view operand, int64_t heads,
                           int64_t nope, int64_t latent, bool transposed) {
  moek::WeightView w = r.weight(operand);
  r.equal("the key weight's head count", w.outer, "heads", heads);
  r.equal("the key weight's row count", w.rows, transposed ? "latent" : "nope",
          transposed ? latent : nope);
  r.equal("the key weight's column count", w.cols,
          transposed ? "nope" : "latent", transposed ? nope : latent);
  return w;
}

/// W_UV: [heads, value, latent].
moek::WeightView valueWeight(OpReader &r, std::string_view operand,
                             int64_t heads, int64_t value, int64_t latent) {
  moek::WeightView w = r.weight(operand);
  r.equal("the value weight's head count", w.outer, "heads", heads);
  r.equal("the value weight's row count", w.rows, "value", value);
  r.equal("the value weight's column count", w.cols, "latent", latent);
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
  args.transposed = r.boolean("transposed");
  args.q = q.f32();
  args.qStride =
      r.rows(q, 1, int64_t(args.heads) * (int64_t(args.nope) + args.rope));
  args.w =
      keyWeight(r, "w", args.heads, args.nope, args.latent, args.transposed);
  args.out = out.f32();
  args.outStride =
      r.rows(out, 1, int64_t(args.heads) * (int64_t(args.latent) + args.rope));
  r.scratch(moek::headLinearScratchBytes(args.nope, args.latent));
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
  args.kv = latentCache(r, args.latent, args.rope);
  args.out = out.f32();
  args.outStride = r.rows(out, 1, int64_t(args.heads) * args.latent);
  r.scratch(
      moek::latentAttentionScratchBytes(args.heads, args.latent, args.rope));
  return r.keep(args);
}

const void *bindExpandValue(OpReader &r) {
  moek::ExpandValueArgs args{};
  BufferRef x = r.buffer("x", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  args.heads = r.positive("heads");
  args.latent = r.positive("latent");
  args.value = r.positive("value");
  args.x = x.f32();
  args.xStride = r.rows(x, 1, int64_t(args.heads) * args.latent);
  args.w = valueWeight(r, "w", args.heads, args.value, args.latent);
  args.out = out.f32();
  args.outStride = r.rows(out, 1, int64_t(args.heads) * args.value);
  r.scratch(moek::headLinearScratchBytes(args.value, args.latent));
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
  args.transposed = r.boolean("transposed");
  args.scale = r.real("scale");
  args.q = q.f32();
  args.qStride =
      r.rows(q, 1, int64_t(args.heads) * (int64_t(args.nope) + args.rope));
  args.kv = latentCache(r, args.latent, args.rope);
  args.wk =
      keyWeight(r, "wk", args.heads, args.nope, args.latent, args.transposed);
  args.wv = valueWeight(r, "wv", args.heads, args.value, args.latent);
  args.out = out.f32();
  args.outStride = r.rows(out, 1, int64_t(args.heads) * args.value);
  r.scratch(moek::mlaAttentionScratchBytes(args.nope, args.rope, args.latent,
                                           args.value));
  return r.keep(args);
}

} // namespace moert
