//===- LowerHyperConnections.cpp - Lowerings of ops on residual streams ---===//

#include "passes/lower/LowerOps.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

LogicalResult lowerHyperWeights(HyperWeightsOp op, Steps steps,
                                PhaseEmitter &emitter) {
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  emitter.inst(steps.front(),
               {emitter.get(op.getX()), emitter.weight(op.getScale()),
                emitter.weight(op.getBase()), out},
               {int64_t(op.getStreams()), int64_t(op.getIterations())},
               {op.getEps().convertToDouble()});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerHyperCollapse(HyperCollapseOp op, Steps steps,
                                 PhaseEmitter &emitter) {
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  emitter.inst(steps.front(),
               {emitter.get(op.getX()), emitter.get(op.getWeights()), out},
               {int64_t(op.getStreams())});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerHyperSpread(HyperSpreadOp op, Steps steps,
                               PhaseEmitter &emitter) {
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  emitter.inst(steps.front(),
               {emitter.get(op.getY()), emitter.get(op.getX()),
                emitter.get(op.getWeights()), out},
               {int64_t(op.getStreams())});
  emitter.set(op.getResult(), out);
  return success();
}

} // namespace

void moe::addHyperLowerings(Lowerings &lowerings) {
  lowerings.add<HyperWeightsOp, lowerHyperWeights>();
  lowerings.add<HyperCollapseOp, lowerHyperCollapse>();
  lowerings.add<HyperSpreadOp, lowerHyperSpread>();
}
