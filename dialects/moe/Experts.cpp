//===- Experts.cpp - Instructions of routers and experts ------------------===//

#include "dialects/moe/ExpertFrequencies.h"
#include "dialects/moe/InstructionBuilders.h"
#include "dialects/moe/MoeWork.h"

#include <numeric>

using namespace mlir;
using namespace mlir::moe;
using moek::Encoding;

namespace {
/// The lists of slots by expert that an ExpertGroup writes.
struct SlotLists {
  Temporary offsets, slots;

  SlotLists(Instructions &list, int64_t experts, int64_t topK,
            StringRef which = "")
      : offsets(list.temporary((which + ".offsets").str(), experts + 1,
                               Encoding::I32, /*rowsPerToken=*/0,
                               /*fixedRows=*/1)),
        slots(list.temporary((which + ".slots").str(), topK, Encoding::I32)) {}
};

/// Groups the slots of a router's choice `ids` by expert, if something reads
/// them so.
void addGroups(Instructions &list, Value ids, int64_t experts,
               StringRef which = "") {
  if (!isGrouped(ids))
    return;
  int64_t topK = columns(ids);
  SlotLists lists(list, experts, topK, which);
  list.add(inst::ExpertGroup{.ids = ids,
                             .offsets = lists.offsets,
                             .slots = lists.slots,
                             .map = std::nullopt,
                             .experts = experts,
                             .top_k = topK,
                             .begin = 0,
                             .count = 0});
  list.setExpertLists(ids, lists.offsets, lists.slots);
}

/// The logits of a router: x * weight^T + bias.
Temporary addLogits(Instructions &list, Value x, Value weight, Value bias,
                    double tokens) {
  Temporary logits = list.temporary(".logits", dim(weight, 0));
  InstructionWork work = moving(0, rowBytes(tokens, {x}));
  work.products = {product(weight, tokens)};
  addBias(work, bias, tokens);
  list.add(inst::Linear{.act = Operand::activation(x),
                        .w = weight,
                        .bias = bias,
                        .out = logits,
                        .accumulate = false},
           work);
  return logits;
}

/// Returns the work of choosing among `experts`. It is that of a softmax for
/// every scoring function.
InstructionWork choosing(Value ids, Value weights, double experts,
                         double tokens) {
  return moving(tokens * experts * kSoftmaxFlops,
                rowBytes(tokens, {ids, weights}));
}
} // namespace

Instructions RouterOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  int64_t experts = dim(getWeight(), 0);
  Temporary logits =
      addLogits(list, getX(), getWeight(), getLogitBias(), tokens);
  InstructionWork work =
      choosing(getIds(), getWeights(), double(experts), tokens);
  work.weightBytes = bytesOf(getBias()) + bytesOf(getExpertScale());
  list.add(inst::Router{.logits = logits,
                        .bias = getBias(),
                        .expert_scale = getExpertScale(),
                        .ids = getIds(),
                        .weights = getWeights(),
                        .experts = experts,
                        .top_k = getTopK(),
                        .groups = getGroups(),
                        .groups_used = getGroupsUsed(),
                        .group_best = getGroupBest(),
                        .scoring = getScoring(),
                        .normalize = getNormalize(),
                        .scale = getScale()},
           work);
  addGroups(list, getIds(), experts);
  return list;
}

Instructions HashRouterOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  int64_t experts = dim(getWeight(), 0);
  Temporary logits = addLogits(list, getX(), getWeight(), /*bias=*/{}, tokens);
  InstructionWork work =
      choosing(getIds(), getWeights(), double(experts), tokens);
  work.weightBytes = rowBytes(tokens, {getTable()}) + bytesOf(getExpertScale());
  list.add(inst::HashRouter{.logits = logits,
                            .tokens = getTokens(),
                            .table = getTable(),
                            .expert_scale = getExpertScale(),
                            .ids = getIds(),
                            .weights = getWeights(),
                            .experts = experts,
                            .top_k = columns(getIds()),
                            .scoring = getScoring(),
                            .normalize = getNormalize(),
                            .scale = getScale()},
           work);
  addGroups(list, getIds(), experts);
  return list;
}

/// Each two choices are compared; all are read and written once.
Instructions SplitChoicesOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  double used = double(columns(getIds()));
  list.add(inst::SplitChoices{.ids = getIds(),
                              .weights = getWeights(),
                              .first_ids = getFirstIds(),
                              .first_weights = getFirstWeights(),
                              .last_ids = getLastIds(),
                              .last_weights = getLastWeights(),
                              .experts = getExperts(),
                              .top_k = columns(getIds()),
                              .last = columns(getLastIds())},
           moving(tokens * used * used,
                  2 * rowBytes(tokens, {getIds(), getWeights()})));
  addGroups(list, getFirstIds(), int64_t(getExperts()), ".first");
  addGroups(list, getLastIds(), int64_t(getExperts()), ".last");
  return list;
}

/// Returns the choice of `used` of `experts` experts by each token of a step.
/// With k of E experts per token, chosen independently and, where no router
/// profile is known, uniformly, T tokens choose E * (1 - (1 - k/E)^T) different
/// ones.
static Choices choicesOf(ExpertsOp op, double used, double experts,
                         int64_t tokens) {
  Choices choices{tokens, experts, used / experts, {}};
  if (auto known = op->getAttrOfType<DenseF32ArrayAttr>(kFrequenciesAttr)) {
    choices.shares = known.asArrayRef();
    choices.chance = used / std::accumulate(choices.shares.begin(),
                                            choices.shares.end(), 0.0);
  }
  return choices;
}

Instructions ExpertsOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  ExpertSliceAttr slice = getSliceAttr();
  double tokens = double(execution.tokens);
  int64_t topK = columns(getIds()), inner = dim(getGate(), 1);

  // A slice has some of the experts and gets some of a token's choices.
  double experts = double(dim(getGate(), 0)), used = double(topK);
  if (slice) {
    // With a map, matrices of other slices may lie between those of this one.
    if (!slice.getMap().empty())
      experts = double(llvm::count_if(
          slice.getMap(), [](double number) { return number >= 0; }));
    used = std::clamp(used * slice.getShare(), 1e-6, experts);
  }
  Choices choices = choicesOf(*this, used, experts, execution.tokens);
  double rows = tokens * used, chosen = choices.chosen();
  GatedWork work(*this, rows, chosen, double(inner));
  for (InstructionWork *gemms :
       {&work.gateUp, &work.gate, &work.up, &work.down})
    gemms->choices = choices;
  for (InstructionWork *first : {&work.gateUp, &work.gate})
    first->activationBytes +=
        rowBytes(tokens, {getX(), getIds(), getWeights()});
  for (Value scale : {getGateScale(), getUpScale()})
    if (scale) {
      work.mul.ops += rows * double(inner);
      work.mul.weightBytes += chosen * kF32Bytes;
    }
  double outputBytes = rowBytes(rows, {getResult()});
  work.down.activationBytes += outputBytes;

  Operand offsets = Operand::expertOffsets(getIds());
  Operand slots = Operand::expertSlots(getIds());
  Operand ids = std::nullopt, map = std::nullopt;
  if (slice) {
    ids = getIds();
    if (!slice.getMap().empty())
      map = Operand::expertMap(slice);
    SlotLists lists(list, slice.getCount(), topK);
    offsets = lists.offsets, slots = lists.slots;
    list.add(inst::ExpertGroup{.ids = ids,
                               .offsets = offsets,
                               .slots = slots,
                               .map = map,
                               .experts = slice.getExperts(),
                               .top_k = topK,
                               .begin = slice.getBegin(),
                               .count = slice.getCount()});
  }

  Operand x = Operand::activation(getX());
  auto perSlot = [&](StringRef suffix, int64_t cols) {
    return list.temporary(suffix, cols, Encoding::F32, topK);
  };
  Temporary gate = perSlot(getFused() ? ".inner" : ".gate", inner);
  if (getFused()) {
    list.add(inst::ExpertsGateUp{.act = x,
                                 .gate = getGate(),
                                 .up = getUp(),
                                 .gate_bias = getGateBias(),
                                 .up_bias = getUpBias(),
                                 .offsets = offsets,
                                 .slots = slots,
                                 .out = gate,
                                 .top_k = topK,
                                 .activation = getActivation()},
             work.gateUp);
  } else {
    Temporary up = perSlot(".up", inner);
    list.add(inst::ExpertsLinear{.act = x,
                                 .w = getGate(),
                                 .bias = getGateBias(),
                                 .offsets = offsets,
                                 .slots = slots,
                                 .out = gate,
                                 .top_k = topK,
                                 .act_per_token = true},
             work.gate);
    list.add(inst::ExpertsLinear{.act = x,
                                 .w = getUp(),
                                 .bias = getUpBias(),
                                 .offsets = offsets,
                                 .slots = slots,
                                 .out = up,
                                 .top_k = topK,
                                 .act_per_token = true},
             work.up);
    if (hasScales())
      list.add(inst::ExpertsActivationMul{.gate = gate,
                                          .up = up,
                                          .gate_scale = getGateScale(),
                                          .up_scale = getUpScale(),
                                          .offsets = offsets,
                                          .slots = slots,
                                          .out = gate,
                                          .experts = dim(getGate(), 0),
                                          .top_k = topK,
                                          .activation = getActivation()},
               work.mul);
    else
      addActivation(list, gate, up, getActivation(), getLimit(), getSoftLimit(),
                    getClampsActivated(), work.mul);
  }
  Temporary outputs = perSlot(".outputs", dim(getDown(), 1));
  list.add(inst::ExpertsLinear{.act = Operand::activation(gate),
                               .w = getDown(),
                               .bias = getDownBias(),
                               .offsets = offsets,
                               .slots = slots,
                               .out = outputs,
                               .top_k = topK,
                               .act_per_token = false},
           work.down);

  // The weighted sum of the slots' rows, each written and read once.
  bool overwrites = list.reuse(getResult(), getResidual());
  list.add(inst::ExpertsCombine{.y = outputs,
                                .weights = getWeights(),
                                .out = getResult(),
                                .top_k = topK,
                                .accumulate = overwrites,
                                .ids = ids,
                                .map = map,
                                .experts = slice ? slice.getExperts() : 0,
                                .begin = slice ? slice.getBegin() : 0,
                                .count = slice ? slice.getCount() : 0},
           moving(2 * rows * double(columns(getX())),
                  outputBytes + rowBytes(tokens, {getResult()})));
  addResidual(list, getResult(), getResidual(), overwrites, tokens);
  return list;
}
