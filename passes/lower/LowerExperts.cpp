//===- LowerExperts.cpp - Lowerings of router and experts -----------------===//

#include "passes/lower/LowerOps.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;
using plan::Encoding;

namespace {

LogicalResult lowerRouter(RouterOp op, Steps steps, PhaseEmitter &emitter) {
  int64_t experts = rowsOf(op.getWeight()), topK = op.getTopK();
  Value logits, ids, weights;
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::Quantize:
      emitter.quantize(step, op.getX());
      break;
    case OpCode::Linear:
      logits =
          emitter.buffer(emitter.label() + ".logits", Encoding::F32, experts);
      emitter.inst(step,
                   {emitter.activation(step, op.getX()),
                    emitter.weight(step, op.getWeight()),
                    emitter.weight(op.getLogitBias()), logits},
                   {/*accumulate=*/0});
      break;
    case OpCode::Router:
      ids = emitter.buffer(emitter.label() + ".ids", Encoding::I32, topK);
      weights =
          emitter.buffer(emitter.label() + ".weights", Encoding::F32, topK);
      emitter.inst(step,
                   {logits, emitter.weight(op.getBias()),
                    emitter.weight(op.getExpertScale()), ids, weights},
                   {experts, topK, int64_t(op.getGroups()),
                    int64_t(op.getGroupsUsed()), int64_t(op.getScoring()),
                    op.getNormalize()},
                   {op.getScale().convertToDouble()});
      emitter.set(op.getIds(), ids);
      emitter.set(op.getWeights(), weights);
      break;
    case OpCode::ExpertGroup: {
      Value offsets = emitter.buffer(emitter.label() + ".offsets",
                                     Encoding::I32, experts + 1,
                                     /*rowsPerToken=*/0, /*fixedRows=*/1);
      Value slots =
          emitter.buffer(emitter.label() + ".slots", Encoding::I32, topK);
      emitter.inst(step, {ids, offsets, slots}, {experts, topK});
      emitter.setGroups(op.getIds(), {offsets, slots});
      break;
    }
    default:
      return unexpectedStep(op, step);
    }
  return success();
}

LogicalResult lowerExperts(ExpertsOp op, Steps steps, PhaseEmitter &emitter) {
  PhaseEmitter::Groups groups = emitter.groups(op.getIds());
  if (!groups.offsets)
    return op.emitError("expected ids of a moe.router");
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
      emitter.inst(step, {slots, emitter.get(op.getWeights()), out},
                   {topK, step.step.accumulate});
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
  lowerings.add<ExpertsOp, lowerExperts>();
}
