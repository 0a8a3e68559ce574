//===- LowerDeltaNet.cpp - Lowerings of gated delta nets ------------------===//

#include "kernels/KvCache.h"
#include "passes/lower/LowerOps.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;

namespace {

LogicalResult lowerRegroup(RegroupOp op, Steps steps, PhaseEmitter &emitter) {
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  SmallVector<int64_t> ints{int64_t(op.getGroups()), int64_t(op.getOffset())};
  llvm::append_range(ints, op.getParts());
  ints.resize(5, 0);
  emitter.inst(steps.front(), {emitter.get(op.getX()), out}, ints);
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerDeltaNet(DeltaNetOp op, Steps steps, PhaseEmitter &emitter) {
  FailureOr<Value> state = emitter.state(op);
  if (failed(state))
    return failure();
  int64_t columns = columnsOf(op.getX()), heads = op.getHeads();
  int64_t taps = columnsOf(op.getConv());
  Value mixed = emitter.rows(emitter.label() + ".conv", columns);
  Value gates = emitter.rows(emitter.label() + ".gates", 2 * heads);
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::ShortConv:
      emitter.inst(
          step,
          {emitter.get(op.getX()), emitter.weight(op.getConv()), *state, mixed},
          {taps});
      break;
    case OpCode::DeltaGates:
      emitter.inst(step, {emitter.get(op.getBeta()), emitter.get(op.getAlpha()),
                          emitter.weight(op.getA()), emitter.weight(op.getDt()),
                          gates});
      break;
    case OpCode::DeltaRule:
      emitter.inst(step, {mixed, gates, *state, out},
                   {int64_t(op.getKeyHeads()), heads, int64_t(op.getKey()),
                    int64_t(op.getValue()),
                    moek::deltaStateBegin(taps, columns), op.getTiled()},
                   {op.getEps().convertToDouble()});
      break;
    default:
      return unexpectedStep(op, step);
    }
  emitter.set(op.getResult(), out);
  return success();
}

} // namespace

void moe::addDeltaNetLowerings(Lowerings &lowerings) {
  lowerings.add<RegroupOp, lowerRegroup>();
  lowerings.add<DeltaNetOp, lowerDeltaNet>();
}
