// Proves what the kernels of routers and routed experts assume about operands
// whose shapes depend on each other.
#include "kernels/Abi.h"
#include "runtime/prove/OpProof.h"

#include <cmath>

namespace moert {
namespace {
/// Proves that the lists that expert_group writes are long enough.
/// verifyDataflow() checks that one expert_group with these numbers wrote both.
void proveGroups(OpProof &p, int64_t experts, int64_t topK) {
  BufferRef offsets = p.buffer("offsets");
  BufferRef slots = p.buffer("slots");
  p.fixedElements(offsets, experts + 1);
  p.rows(slots, topK, 1);
}

/// Proves that the experts of the instruction are a valid subset of `experts`,
/// and returns their number. They are a range, or those that a map selects.
int64_t proveSlice(OpProof &p, int32_t experts) {
  int32_t begin = p.integer("begin", 0, experts);
  int32_t count = p.integer("count", 0, experts - begin);
  if (!p.has("map"))
    return count ? count : experts;
  std::span<const float> map = p.constant("map");
  p.require(int64_t(map.size()) == experts, "map has a number per expert");
  p.require(count > 0 && begin == 0,
            "with a map, begin is 0 and count is above 0");
  for (float number : map)
    p.require(number >= -1 && number < float(count) &&
                  number == std::floor(number),
              "map has numbers from -1 to count - 1");
  return count;
}
} // namespace

void proveRouter(OpProof &p) {
  BufferRef logits = p.buffer("logits");
  BufferRef ids = p.buffer("ids");
  BufferRef weights = p.buffer("weights");
  int32_t experts = p.integer("experts");
  int32_t topK = p.integer("top_k", 1, experts);
  int32_t groups = p.integer("groups", 1, experts);
  int32_t groupsUsed = p.integer("groups_used", 1, groups);
  int32_t groupBest = p.integer("group_best");
  p.rows(logits, 1, experts);
  p.vector("bias", experts);
  p.vector("expert_scale", experts);
  p.rows(ids, 1, topK);
  p.rows(weights, 1, topK);
  int64_t groupSize = experts / groups;
  p.require(experts % groups == 0, "groups divide the experts");
  p.require(topK <= groupsUsed * groupSize,
            "the groups used hold top_k experts");
  p.require(groupBest <= groupSize, "a group has at least group_best experts");
}

/// The expert ids in the table are not proved here; the kernel checks them.
void proveHashRouter(OpProof &p) {
  BufferRef logits = p.buffer("logits");
  BufferRef tokens = p.buffer("tokens");
  BufferRef ids = p.buffer("ids");
  BufferRef weights = p.buffer("weights");
  int32_t experts = p.integer("experts");
  int32_t topK = p.integer("top_k", 1, experts);
  int32_t scoring = p.integer("scoring");
  p.require(moek::Scoring(scoring) != moek::Scoring::SoftmaxTopK,
            "all experts have scores");
  const fb::Weight &table = p.matrix("table");
  p.vector("expert_scale", experts);
  p.equal("the table's row count", table.rows(), "the vocabulary",
          p.plan().vocab());
  p.equal("the table's column count", table.cols(), "top_k", topK);
  p.equal("the table's row stride", table.row_stride(), "the bytes of a row",
          int64_t(topK) * int64_t(sizeof(int32_t)));
  p.rows(tokens, 1, 1);
  p.rows(logits, 1, experts);
  p.rows(ids, 1, topK);
  p.rows(weights, 1, topK);
}

void proveSplitChoices(OpProof &p) {
  int32_t topK = p.integer("top_k");
  int32_t last = p.integer("last", 1, topK - 1);
  p.rows(p.buffer("ids"), 1, topK);
  p.rows(p.buffer("weights"), 1, topK);
  p.rows(p.buffer("first_ids"), 1, topK - last);
  p.rows(p.buffer("first_weights"), 1, topK - last);
  p.rows(p.buffer("last_ids"), 1, last);
  p.rows(p.buffer("last_weights"), 1, last);
}

void proveExpertGroup(OpProof &p) {
  BufferRef ids = p.buffer("ids");
  int32_t experts = p.integer("experts");
  int32_t topK = p.integer("top_k", 1, experts);
  p.rows(ids, 1, topK);
  proveGroups(p, proveSlice(p, experts), topK);
}

void proveExpertsLinear(OpProof &p) {
  BufferRef act = p.buffer("act");
  BufferRef out = p.buffer("out");
  const fb::Weight &w = p.weight("w");
  p.gemm("w", act);
  p.vectors("bias", w.outer(), w.rows());
  int32_t topK = p.integer("top_k");
  bool actPerToken = p.boolean("act_per_token");
  proveGroups(p, w.outer(), topK);
  p.rows(act, actPerToken ? 1 : topK, w.cols());
  p.rows(out, topK, w.rows());
}

void proveExpertsGateUp(OpProof &p) {
  BufferRef act = p.buffer("act");
  BufferRef out = p.buffer("out");
  const fb::Weight &gate = p.weight("gate"), &up = p.weight("up");
  p.equal("up's expert count", up.outer(), "gate's", gate.outer());
  p.equal("up's row count", up.rows(), "gate's", gate.rows());
  p.equal("up's column count", up.cols(), "gate's", gate.cols());
  p.gemm("gate", act);
  p.gemm("up", act);
  p.vectors("gate_bias", gate.outer(), gate.rows());
  p.vectors("up_bias", gate.outer(), gate.rows());
  int32_t topK = p.integer("top_k");
  proveGroups(p, gate.outer(), topK);
  p.rows(act, 1, gate.cols());
  p.rows(out, topK, gate.rows());
}

void proveExpertsActivationMul(OpProof &p) {
  BufferRef gate = p.buffer("gate");
  BufferRef up = p.buffer("up");
  BufferRef out = p.buffer("out");
  int32_t experts = p.integer("experts"), topK = p.integer("top_k");
  p.vectors("gate_scale", experts, 1);
  p.vectors("up_scale", experts, 1);
  proveGroups(p, experts, topK);
  for (const BufferRef &rows : {gate, up, out})
    p.rows(rows, topK, out.cols);
}

void proveExpertsCombine(OpProof &p) {
  BufferRef y = p.buffer("y");
  BufferRef weights = p.buffer("weights");
  BufferRef out = p.buffer("out");
  int32_t topK = p.integer("top_k");
  int64_t cols = out.perToken();
  p.require(cols >= 1, "out has at least one row per token");
  p.rows(y, topK, cols);
  p.rows(weights, 1, topK);
  int32_t experts = p.integer("experts");
  proveSlice(p, experts);
  if (p.has("ids"))
    p.rows(p.buffer("ids"), 1, topK);
}

} // namespace moert
