// Arguments of routing and the routed experts.
#include "runtime/device/cpu/CpuOperands.h"

namespace moert {

const void *bindRouter(CpuOperands &o) {
  moek::RouterArgs args{};
  args.experts = o.op().integer("experts");
  args.topK = o.op().integer("top_k");
  args.groups = o.op().integer("groups");
  args.groupsUsed = o.op().integer("groups_used");
  args.scoring = moek::Scoring(o.op().integer("scoring"));
  args.normalize = o.op().boolean("normalize");
  args.scale = o.op().real("scale");
  args.logits = o.f32("logits");
  args.stride = o.op().stride("logits");
  args.bias = o.vector("bias");
  args.ids = o.i32("ids");
  args.weights = o.f32("weights");
  return o.keep(args);
}

const void *bindExpertGroup(CpuOperands &o) {
  moek::ExpertGroupArgs args{};
  args.experts = o.op().integer("experts");
  args.topK = o.op().integer("top_k");
  args.ids = o.i32("ids");
  args.offsets = o.i32("offsets");
  args.slots = o.i32("slots");
  return o.keep(args);
}

const void *bindExpertsLinear(CpuOperands &o) {
  moek::ExpertsLinearArgs args{};
  args.w = o.weight("w");
  args.gemm = o.gemm("w");
  args.topK = o.op().integer("top_k");
  args.actPerToken = o.op().boolean("act_per_token");
  args.offsets = o.i32("offsets");
  args.slots = o.i32("slots");
  args.act = o.bytes("act");
  args.actStride = o.byteStride("act");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

const void *bindExpertsGateUp(CpuOperands &o) {
  moek::ExpertsGateUpArgs args{};
  args.gate = o.weight("gate");
  args.up = o.weight("up");
  args.gateGemm = o.gemm("gate");
  args.upGemm = o.gemm("up");
  args.topK = o.op().integer("top_k");
  args.offsets = o.i32("offsets");
  args.slots = o.i32("slots");
  args.act = o.bytes("act");
  args.actStride = o.byteStride("act");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

const void *bindExpertsCombine(CpuOperands &o) {
  moek::ExpertsCombineArgs args{};
  const fb::Buffer &out = o.op().buffer("out");
  args.topK = o.op().integer("top_k");
  args.cols = out.cols() * out.rows_per_token();
  args.accumulate = o.op().boolean("accumulate");
  args.y = o.f32("y");
  args.weights = o.f32("weights");
  args.out = o.f32("out");
  return o.keep(args);
}

} // namespace moert
