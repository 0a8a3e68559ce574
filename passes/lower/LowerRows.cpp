//===- LowerRows.cpp - Lowerings of ops on whole rows ---------------------===//

#include "passes/lower/LowerOps.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;
using plan::Encoding;

namespace {

LogicalResult lowerEmbedding(EmbeddingOp op, Steps steps,
                             PhaseEmitter &emitter) {
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  emitter.inst(
      steps.front(),
      {emitter.get(op.getTokens()), emitter.weight(op.getTable()), out},
      {int64_t(op.getBegin())});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerRmsNorm(RmsNormOp op, Steps steps, PhaseEmitter &emitter) {
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  emitter.inst(steps.front(),
               {emitter.get(op.getX()), emitter.weight(op.getWeight()), out},
               {int64_t(op.getGroups())}, {op.getEps().convertToDouble()});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerLayerNorm(LayerNormOp op, Steps steps,
                             PhaseEmitter &emitter) {
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  emitter.inst(steps.front(),
               {emitter.get(op.getX()), emitter.weight(op.getWeight()),
                emitter.weight(op.getBias()), out},
               {}, {op.getEps().convertToDouble()});
  emitter.set(op.getResult(), out);
  return success();
}

/// x * weight^T + bias + residual, where the last two may be null.
LogicalResult emitLinear(Operation *op, Value x, Value weight, Value bias,
                         Value residual, Steps steps, PhaseEmitter &emitter) {
  Value out;
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::Quantize:
      emitter.quantize(step, x);
      break;
    case OpCode::Linear:
      out = target(step, residual, rowsOf(weight), emitter);
      emitter.inst(step,
                   {emitter.activation(step, x), emitter.weight(step, weight),
                    emitter.weight(bias), out},
                   {step.step.accumulate});
      break;
    case OpCode::Add:
      emitter.inst(step, {out, emitter.get(residual), out});
      break;
    default:
      return unexpectedStep(op, step);
    }
  emitter.set(op->getResult(0), out);
  return success();
}

LogicalResult lowerLinear(LinearOp op, Steps steps, PhaseEmitter &emitter) {
  return emitLinear(op, op.getX(), op.getWeight(), op.getBias(),
                    op.getResidual(), steps, emitter);
}

LogicalResult lowerLmHead(LmHeadOp op, Steps steps, PhaseEmitter &emitter) {
  return emitLinear(op, op.getX(), op.getWeight(), {}, {}, steps, emitter);
}

/// What an instruction makes of `x` and others of its shape: `x` itself, where
/// that has no later use.
Value inPlace(Operation *op, Value x, PhaseEmitter &emitter) {
  Value from = emitter.get(x);
  return residualDiesIn(op, x)
             ? from
             : emitter.bufferLike(from, emitter.label(), Encoding::F32);
}

LogicalResult lowerAdd(AddOp op, Steps steps, PhaseEmitter &emitter) {
  Value out = inPlace(op, op.getLhs(), emitter);
  emitter.inst(steps.front(),
               {emitter.get(op.getLhs()), emitter.get(op.getRhs()), out});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerSigmoidMul(SigmoidMulOp op, Steps steps,
                              PhaseEmitter &emitter) {
  Value out = inPlace(op, op.getX(), emitter);
  emitter.inst(steps.front(),
               {emitter.get(op.getX()), emitter.get(op.getGate()), out});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerScale(ScaleOp op, Steps steps, PhaseEmitter &emitter) {
  Value out = inPlace(op, op.getX(), emitter);
  emitter.inst(
      steps.front(), {emitter.get(op.getX()), out}, {},
      {op.getFactor().convertToDouble(), op.getSoftcap().convertToDouble()});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerActivationMul(ActivationMulOp op, Steps steps,
                                 PhaseEmitter &emitter) {
  Value out = inPlace(op, op.getGate(), emitter);
  emitter.inst(steps.front(),
               {emitter.get(op.getGate()), emitter.get(op.getUp()), out},
               {int64_t(op.getActivation())});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerFfn(FfnOp op, Steps steps, PhaseEmitter &emitter) {
  InnerActivation inner;
  SmallVector<Value, 2> factors;
  Value out;
  int64_t columns = rowsOf(op.getGate());
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::Quantize:
      if (step.step.activation == ActivationSource::Input)
        emitter.quantize(step, op.getX());
      else
        inner.quantize(step, emitter);
      break;
    case OpCode::GateUp:
      inner.buffer =
          emitter.buffer(emitter.label() + ".inner", Encoding::F32, columns);
      emitter.inst(step,
                   {emitter.activation(step, op.getX()),
                    emitter.weight(step, op.getGate()),
                    emitter.weight(step, op.getUp()),
                    emitter.weight(op.getGateBias()),
                    emitter.weight(op.getUpBias()), inner.buffer},
                   {int64_t(op.getActivation())});
      break;
    case OpCode::ClampedMul:
      inner.buffer = factors[0];
      emitter.inst(step, {factors[0], factors[1], inner.buffer}, {},
                   {op.getLimit().convertToDouble()});
      break;
    case OpCode::ActivationMul:
      inner.buffer = factors[0];
      emitter.inst(step, {factors[0], factors[1], inner.buffer},
                   {int64_t(op.getActivation())});
      break;
    case OpCode::Linear: {
      Value weight = step.step.gemmWeights.front();
      bool isDown = step.step.activation == ActivationSource::Inner;
      Value bias = isDown            ? op.getDownBias()
                   : factors.empty() ? op.getGateBias()
                                     : op.getUpBias();
      Value result =
          isDown ? target(step, op.getResidual(), rowsOf(weight), emitter)
                 : emitter.buffer(emitter.label() +
                                      (factors.empty() ? ".gate" : ".up"),
                                  Encoding::F32, columns);
      emitter.inst(
          step,
          {isDown ? inner.read(step) : emitter.activation(step, op.getX()),
           emitter.weight(step, weight), emitter.weight(bias), result},
          {step.step.accumulate});
      if (isDown)
        out = result;
      else
        factors.push_back(result);
      break;
    }
    case OpCode::Add:
      emitter.inst(step, {out, emitter.get(op.getResidual()), out});
      break;
    default:
      return unexpectedStep(op, step);
    }
  emitter.set(op.getResult(), out);
  return success();
}

/// With a router's ids go the groups made from them.
LogicalResult lowerTransfer(TransferOp op, Steps steps, PhaseEmitter &emitter) {
  FailureOr<Value> to = emitter.tables().device(op, op.getTo());
  if (failed(to))
    return failure();
  auto copy = [&](Value from, StringRef suffix) {
    auto encoding = from.getDefiningOp<plan::BufferOp>().getEncoding();
    Value out =
        emitter.bufferLike(from, emitter.label() + suffix, encoding, *to);
    emitter.inst(steps.front(), {from, out});
    return out;
  };
  emitter.set(op.getResult(), copy(emitter.get(op.getX()), ""));
  if (auto groups = emitter.groups(op.getX()); groups.offsets)
    emitter.setGroups(op.getResult(), {copy(groups.offsets, ".offsets"),
                                       copy(groups.slots, ".slots")});
  return success();
}

} // namespace

void moe::addRowLowerings(Lowerings &lowerings) {
  lowerings.add<EmbeddingOp, lowerEmbedding>();
  lowerings.add<RmsNormOp, lowerRmsNorm>();
  lowerings.add<LayerNormOp, lowerLayerNorm>();
  lowerings.add<LinearOp, lowerLinear>();
  lowerings.add<LmHeadOp, lowerLmHead>();
  lowerings.add<AddOp, lowerAdd>();
  lowerings.add<ScaleOp, lowerScale>();
  lowerings.add<ActivationMulOp, lowerActivationMul>();
  lowerings.add<SigmoidMulOp, lowerSigmoidMul>();
  lowerings.add<FfnOp, lowerFfn>();
  lowerings.add<TransferOp, lowerTransfer>();
}
