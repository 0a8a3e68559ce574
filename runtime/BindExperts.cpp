// Arguments of routing and the routed experts.
#include "runtime/OpReader.h"

namespace moert {
using moek::Encoding;

namespace {
/// The lists that expert_group makes: checked to be long enough here, and to
/// come from one expert_group of these numbers by verifyDataflow().
struct Groups {
  const int32_t *offsets, *slots;
};

Groups readGroups(OpReader &r, int64_t experts, int64_t topK) {
  BufferRef offsets = r.buffer("offsets", Encoding::I32);
  BufferRef slots = r.buffer("slots", Encoding::I32);
  r.fixedElements(offsets, experts + 1);
  r.rows(slots, topK, 1);
  return {offsets.i32(), slots.i32()};
}
} // namespace

const void *bindRouter(OpReader &r) {
  moek::RouterArgs args{};
  BufferRef logits = r.buffer("logits", Encoding::F32);
  BufferRef ids = r.buffer("ids", Encoding::I32);
  BufferRef weights = r.buffer("weights", Encoding::F32);
  args.experts = r.positive("experts");
  args.topK = r.integer("top_k", 1, args.experts);
  args.groups = r.integer("groups", 1, args.experts);
  args.groupsUsed = r.integer("groups_used", 1, args.groups);
  args.scoring = moek::Scoring(r.integer("scoring", 1, 3));
  args.normalize = r.boolean("normalize");
  args.scale = r.real("scale");
  args.logits = logits.f32();
  args.stride = r.rows(logits, 1, args.experts);
  args.bias = r.vector("bias", args.experts);
  args.ids = ids.i32();
  r.rows(ids, 1, args.topK);
  args.weights = weights.f32();
  r.rows(weights, 1, args.topK);
  int64_t groupSize = args.experts / args.groups;
  r.require(args.experts % args.groups == 0, "groups divide the experts");
  r.require(args.topK <= args.groupsUsed * groupSize,
            "the groups used hold top_k experts");
  r.require(args.groups == 1 || !args.bias || groupSize >= 2,
            "a biased group has two experts to rank it by");
  return r.keep(args);
}

const void *bindExpertGroup(OpReader &r) {
  moek::ExpertGroupArgs args{};
  BufferRef ids = r.buffer("ids", Encoding::I32);
  args.experts = r.positive("experts");
  args.topK = r.integer("top_k", 1, args.experts);
  r.rows(ids, 1, args.topK);
  args.ids = ids.i32();
  Groups groups = readGroups(r, args.experts, args.topK);
  args.offsets = const_cast<int32_t *>(groups.offsets);
  args.slots = const_cast<int32_t *>(groups.slots);
  return r.keep(args);
}

const void *bindExpertsLinear(OpReader &r) {
  moek::ExpertsLinearArgs args{};
  BufferRef act = r.activations("act");
  BufferRef out = r.buffer("out", Encoding::F32);
  args.w = r.weight("w");
  args.gemm = r.gemm("w", args.w, act);
  args.topK = r.integer("top_k", 1, args.w.outer);
  args.actPerToken = r.boolean("act_per_token");
  Groups groups = readGroups(r, args.w.outer, args.topK);
  args.offsets = groups.offsets;
  args.slots = groups.slots;
  args.act = act.bytes();
  args.actStride =
      r.byteStride(act, args.actPerToken ? 1 : args.topK, args.w.cols);
  args.out = out.f32();
  args.outStride = r.rows(out, args.topK, args.w.rows);
  return r.keep(args);
}

const void *bindExpertsGateUp(OpReader &r) {
  moek::ExpertsGateUpArgs args{};
  BufferRef act = r.activations("act");
  BufferRef out = r.buffer("out", Encoding::F32);
  args.gate = r.weight("gate");
  args.up = r.weight("up");
  r.equal("up's expert count", args.up.outer, "gate's", args.gate.outer);
  r.equal("up's row count", args.up.rows, "gate's", args.gate.rows);
  r.equal("up's column count", args.up.cols, "gate's", args.gate.cols);
  args.gateGemm = r.gemm("gate", args.gate, act);
  args.upGemm = r.gemm("up", args.up, act);
  args.topK = r.integer("top_k", 1, args.gate.outer);
  Groups groups = readGroups(r, args.gate.outer, args.topK);
  args.offsets = groups.offsets;
  args.slots = groups.slots;
  args.act = act.bytes();
  args.actStride = r.byteStride(act, 1, args.gate.cols);
  args.out = out.f32();
  args.outStride = r.rows(out, args.topK, args.gate.rows);
  return r.keep(args);
}

const void *bindExpertsCombine(OpReader &r) {
  moek::ExpertsCombineArgs args{};
  BufferRef y = r.buffer("y", Encoding::F32);
  BufferRef weights = r.buffer("weights", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  args.topK = r.positive("top_k");
  args.cols = out.perToken();
  r.require(args.cols >= 1, "out has rows per token");
  args.accumulate = r.boolean("accumulate");
  r.rows(y, args.topK, args.cols);
  r.rows(weights, 1, args.topK);
  args.y = y.f32();
  args.weights = weights.f32();
  args.out = out.f32();
  return r.keep(args);
}

} // namespace moert
