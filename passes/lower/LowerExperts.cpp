//===- LowerExperts.cpp - Lowerings of router and experts -----------------===//

#include "passes/lower/LowerOps.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;
using plan::Encoding;

namespace {

/// The Linear of a router.
template <typename Op>
Value emitLogits(const SelectedStep &step, Op op, Value bias,
                 PhaseEmitter &emitter) {
  Value logits = emitter.buffer(emitter.label() + ".logits", Encoding::F32,
                                rowsOf(op.getWeight()));
  emitter.inst(step,
               {emitter.activation(step, op.getX()),
                emitter.weight(step, op.getWeight()), emitter.weight(bias),
                logits},
               {/*accumulate=*/0});
  return logits;
}

/// Its ExpertGroup; `ids` holds `of`.
void emitGroups(const SelectedStep &step, Value of, Value ids, int64_t experts,
                int64_t topK, PhaseEmitter &emitter, StringRef which = "") {
  std::string name = (emitter.label() + which).str();
  Value offsets = emitter.buffer(name + ".offsets", Encoding::I32, experts + 1,
                                 /*rowsPerToken=*/0, /*fixedRows=*/1);
  Value slots = emitter.buffer(name + ".slots", Encoding::I32, topK);
  emitter.inst(step, {ids, offsets, slots, Value()},
               {experts, topK, /*begin=*/0, /*count=*/0});
  emitter.setGroups(of, {offsets, slots});
}

LogicalResult lowerRouter(RouterOp op, Steps steps, PhaseEmitter &emitter) {
  int64_t experts = rowsOf(op.getWeight()), topK = op.getTopK();
  Value logits, ids, weights;
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::Quantize:
      emitter.quantize(step, op.getX());
      break;
    case OpCode::Linear:
      logits = emitLogits(step, op, op.getLogitBias(), emitter);
      break;
    case OpCode::Router:
      ids = emitter.buffer(emitter.label() + ".ids", Encoding::I32, topK);
      weights =
          emitter.buffer(emitter.label() + ".weights", Encoding::F32, topK);
      emitter.inst(step,
                   {logits, emitter.weight(op.getBias()),
                    emitter.weight(op.getExpertScale()), ids, weights},
                   {experts, topK, int64_t(op.getGroups()),
                    int64_t(op.getGroupsUsed()), int64_t(op.getGroupBest()),
                    int64_t(op.getScoring()), op.getNormalize()},
                   {op.getScale().convertToDouble()});
      emitter.set(op.getIds(), ids);
      emitter.set(op.getWeights(), weights);
      break;
    case OpCode::ExpertGroup:
      emitGroups(step, op.getIds(), ids, experts, topK, emitter);
      break;
    default:
      return unexpectedStep(op, step);
    }
  return success();
}

LogicalResult lowerHashRouter(HashRouterOp op, Steps steps,
                              PhaseEmitter &emitter) {
  int64_t experts = rowsOf(op.getWeight()), topK = columnsOf(op.getIds());
  Value logits, ids, weights;
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::Quantize:
      emitter.quantize(step, op.getX());
      break;
    case OpCode::Linear:
      logits = emitLogits(step, op, /*bias=*/{}, emitter);
      break;
    case OpCode::HashRouter:
      ids = emitter.buffer(emitter.label() + ".ids", Encoding::I32, topK);
      weights =
          emitter.buffer(emitter.label() + ".weights", Encoding::F32, topK);
      emitter.inst(step,
                   {logits, emitter.get(op.getTokens()),
                    emitter.weight(op.getTable()),
                    emitter.weight(op.getExpertScale()), ids, weights},
                   {experts, topK, int64_t(op.getScoring()), op.getNormalize()},
                   {op.getScale().convertToDouble()});
      emitter.set(op.getIds(), ids);
      emitter.set(op.getWeights(), weights);
      break;
    case OpCode::ExpertGroup:
      emitGroups(step, op.getIds(), ids, experts, topK, emitter);
      break;
    default:
      return unexpectedStep(op, step);
    }
  return success();
}

LogicalResult lowerSplitChoices(SplitChoicesOp op, Steps steps,
                                PhaseEmitter &emitter) {
  int64_t experts = op.getExperts(), last = columnsOf(op.getLastIds());
  // What lists are made of, in the order of the op's ExpertGroups.
  SmallVector<Value, 2> grouped;
  for (Value ids : {op.getFirstIds(), op.getLastIds()})
    if (isGrouped(ids))
      grouped.push_back(ids);
  size_t done = 0;
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::SplitChoices: {
      SmallVector<Value> operands{emitter.get(op.getIds()),
                                  emitter.get(op.getWeights())};
      for (auto [result, suffix, encoding] :
           {std::tuple(op.getFirstIds(), ".first_ids", Encoding::I32),
            {op.getFirstWeights(), ".first_weights", Encoding::F32},
            {op.getLastIds(), ".last_ids", Encoding::I32},
            {op.getLastWeights(), ".last_weights", Encoding::F32}}) {
        operands.push_back(emitter.buffer(emitter.label() + suffix, encoding,
                                          columnsOf(result)));
        emitter.set(result, operands.back());
      }
      emitter.inst(step, operands, {experts, columnsOf(op.getIds()), last});
      break;
    }
    case OpCode::ExpertGroup: {
      Value ids = grouped[done++];
      emitGroups(step, ids, emitter.get(ids), experts, columnsOf(ids), emitter,
                 ids == op.getFirstIds() ? ".first" : ".last");
      break;
    }
    default:
      return unexpectedStep(op, step);
    }
  return success();
}

LogicalResult lowerExperts(ExpertsOp op, Steps steps, PhaseEmitter &emitter) {
  ExpertSliceAttr slice = op.getSliceAttr();
  PhaseEmitter::Groups groups = emitter.groups(op.getIds());
  if (!groups.offsets && !slice)
    return op.emitError("expected ids of a moe.router");
  Value ids, map;
  if (slice && !slice.getMap().empty())
    map = emitter.tables().constant((emitter.label() + ".map").str(),
                                    slice.getMap());
  int64_t topK = columnsOf(op.getIds());
  int64_t columns = rowsOf(op.getGate());
  InnerActivation inner;
  SmallVector<Value, 2> factors;
  Value slots, out;
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::Quantize:
      if (step.step.activation == ActivationSource::Input)
        emitter.quantize(step, op.getX());
      else
        inner.quantize(step, emitter);
      break;
    case OpCode::ExpertGroup:
      ids = emitter.get(op.getIds());
      groups = {
          emitter.buffer(emitter.label() + ".offsets", Encoding::I32,
                         slice.getCount() + 1, /*rowsPerToken=*/0,
                         /*fixedRows=*/1),
          emitter.buffer(emitter.label() + ".slots", Encoding::I32, topK)};
      emitter.inst(
          step, {ids, groups.offsets, groups.slots, map},
          {slice.getExperts(), topK, slice.getBegin(), slice.getCount()});
      break;
    case OpCode::ExpertsGateUp:
      inner.buffer = emitter.buffer(emitter.label() + ".inner", Encoding::F32,
                                    columns, topK);
      emitter.inst(
          step,
          {emitter.activation(step, op.getX()),
           emitter.weight(step, op.getGate()), emitter.weight(step, op.getUp()),
           emitter.weight(op.getGateBias()), emitter.weight(op.getUpBias()),
           groups.offsets, groups.slots, inner.buffer},
          {topK, int64_t(op.getActivation())});
      break;
    case OpCode::ClampedMul:
      inner.buffer = factors[0];
      emitter.inst(step, {factors[0], factors[1], inner.buffer}, {},
                   {op.getLimit().convertToDouble()});
      break;
    case OpCode::ExpertsActivationMul:
      inner.buffer = factors[0];
      emitter.inst(
          step,
          {factors[0], factors[1], emitter.weight(op.getGateScale()),
           emitter.weight(op.getUpScale()), groups.offsets, groups.slots,
           inner.buffer},
          {matricesOf(op.getGate()), topK, int64_t(op.getActivation())});
      break;
    case OpCode::ActivationMul:
      inner.buffer = factors[0];
      emitter.inst(step, {factors[0], factors[1], inner.buffer},
                   {int64_t(op.getActivation())});
      break;
    case OpCode::ExpertsLinear: {
      Value weight = step.step.gemmWeights.front();
      bool isDown = step.step.activation == ActivationSource::Inner;
      Value bias = isDown            ? op.getDownBias()
                   : factors.empty() ? op.getGateBias()
                                     : op.getUpBias();
      StringRef suffix = isDown            ? ".outputs"
                         : factors.empty() ? ".gate"
                                           : ".up";
      Value result = emitter.buffer(emitter.label() + suffix, Encoding::F32,
                                    rowsOf(weight), topK);
      emitter.inst(
          step,
          {isDown ? inner.read(step) : emitter.activation(step, op.getX()),
           emitter.weight(step, weight), emitter.weight(bias), groups.offsets,
           groups.slots, result},
          {topK, /*act_per_token=*/!isDown});
      if (isDown)
        slots = result;
      else
        factors.push_back(result);
      break;
    }
    case OpCode::ExpertsCombine:
      out = target(step, op.getResidual(), columnsOf(op.getResult()), emitter);
      emitter.inst(step, {slots, emitter.get(op.getWeights()), out, ids, map},
                   {topK, step.step.accumulate, slice ? slice.getExperts() : 0,
                    slice ? slice.getBegin() : 0,
                    slice ? slice.getCount() : 0});
      break;
    case OpCode::Add:
      emitter.inst(step, {out, emitter.get(op.getResidual()), out});
      break;
    default:
      return unexpectedStep(op, step);
    }
  emitter.set(op.getResult(), out);
  return success();
}

} // namespace

void moe::addExpertLowerings(Lowerings &lowerings) {
  lowerings.add<RouterOp, lowerRouter>();
  lowerings.add<HashRouterOp, lowerHashRouter>();
  lowerings.add<SplitChoicesOp, lowerSplitChoices>();
  lowerings.add<ExpertsOp, lowerExperts>();
}
