// Arguments of rotary embedding and multi-head latent attention.
#include "kernels/Activation.h"
#include "runtime/device/cpu/CpuOperands.h"

namespace moert {

const void *bindRope(CpuOperands &o) {
  moek::RopeArgs args{};
  args.heads = o.op().integer("heads");
  args.headStride = o.op().integer("head_stride");
  args.dim = o.op().integer("dim");
  args.offset = o.op().integer("offset");
  args.neox = o.op().boolean("neox");
  args.x = o.f32("x");
  args.stride = o.op().stride("x");
  args.table = o.f32("table");
  return o.keep(args);
}

const void *bindMlaLatent(CpuOperands &o) {
  moek::MlaLatentArgs args{};
  args.latent = o.op().integer("latent");
  args.rope = o.op().integer("rope");
  args.x = o.f32("x");
  args.stride = o.op().stride("x");
  args.weight = o.vector("weight");
  args.table = o.f32("table");
  args.kv = o.cache("kv");
  args.eps = o.op().real("eps");
  return o.keep(args);
}

const void *bindAbsorbQuery(CpuOperands &o) {
  moek::AbsorbQueryArgs args{};
  args.heads = o.op().integer("heads");
  args.nope = o.op().integer("nope");
  args.rope = o.op().integer("rope");
  args.latent = o.op().integer("latent");
  args.q = o.f32("q");
  args.qStride = o.op().stride("q");
  args.w = o.weight("w");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

const void *bindLatentAttention(CpuOperands &o) {
  moek::LatentAttentionArgs args{};
  args.heads = o.op().integer("heads");
  args.latent = o.op().integer("latent");
  args.rope = o.op().integer("rope");
  args.scale = o.op().real("scale");
  args.splits = o.op().integer("splits");
  args.q = o.f32("q");
  args.qStride = o.op().stride("q");
  args.kv = o.cache("kv");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

const void *bindLatentCombine(CpuOperands &o) {
  moek::LatentCombineArgs args{};
  args.heads = o.op().integer("heads");
  args.latent = o.op().integer("latent");
  args.splits = o.op().integer("splits");
  args.x = o.f32("x");
  args.xStride = o.op().stride("x");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

const void *bindHeadLinear(CpuOperands &o) {
  moek::HeadLinearArgs args{};
  args.tail = o.op().integer("tail");
  args.w = o.weight("w");
  args.gemm = o.gemm("w");
  args.encoding = o.op().gemm("w").activation;
  args.x = o.f32("x");
  args.xStride = o.op().stride("x");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

const void *bindMlaAttention(CpuOperands &o) {
  moek::MlaAttentionArgs args{};
  args.heads = o.op().integer("heads");
  args.nope = o.op().integer("nope");
  args.rope = o.op().integer("rope");
  args.latent = o.op().integer("latent");
  args.value = o.op().integer("value");
  args.scale = o.op().real("scale");
  args.q = o.f32("q");
  args.qStride = o.op().stride("q");
  args.kv = o.cache("kv");
  args.wv = o.weight("wv");
  args.valueGemm = o.gemm("wv");
  args.encoding = o.op().gemm("wv").activation;
  if (o.op().has("wk")) {
    args.wk = o.weight("wk");
    args.keyGemm = o.gemm("wk");
    args.encoding =
        moek::readByBoth(o.op().gemm("wk").activation, args.encoding);
  } else {
    args.wk = o.weight("wk_transposed");
  }
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

} // namespace moert
