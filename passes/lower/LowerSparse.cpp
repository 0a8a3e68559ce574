//===- LowerSparse.cpp - Lowerings of attention to chosen rows ------------===//

#include "passes/lower/LowerOps.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;
using plan::Encoding;

namespace {

LogicalResult lowerRowStore(RowStoreOp op, Steps steps, PhaseEmitter &emitter) {
  FailureOr<Value> kv = emitter.kv(op);
  if (failed(kv))
    return failure();
  emitter.inst(steps.front(), {emitter.get(op.getX()), *kv});
  emitter.set(op.getResult(), *kv);
  return success();
}

LogicalResult lowerChooseEntries(ChooseEntriesOp op, Steps steps,
                                 PhaseEmitter &emitter) {
  int64_t topK = op.getTopK(), ratio = op.getRatio();
  int64_t entries =
      std::max<int64_t>(1, emitter.phase().getContextLength() / ratio);
  Value scores = emitter.rows(emitter.label() + ".scores", entries);
  Value chosen = emitter.buffer(emitter.label(), Encoding::I32, topK);
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::IndexScores:
      emitter.inst(step,
                   {emitter.get(op.getQ()), emitter.get(op.getWeights()),
                    emitter.get(op.getKv()), scores},
                   {int64_t(op.getHeads()), int64_t(op.getKey()), ratio},
                   {op.getScale().convertToDouble()});
      break;
    case OpCode::IndexSelect:
      emitter.inst(step, {scores, chosen}, {topK, ratio});
      break;
    default:
      return unexpectedStep(op, step);
    }
  emitter.set(op.getResult(), chosen);
  return success();
}

LogicalResult lowerSparseAttention(SparseAttentionOp op, Steps steps,
                                   PhaseEmitter &emitter) {
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  Value chosen = op.getChosen();
  emitter.inst(steps.front(),
               {emitter.get(op.getQ()), emitter.get(op.getKv()),
                emitter.get(op.getEntries()), emitter.get(chosen),
                emitter.weight(op.getSinks()), out},
               {int64_t(op.getHeads()), int64_t(op.getKey()),
                int64_t(op.getValue()), int64_t(op.getWindow()),
                int64_t(op.getRatio()), chosen ? columnsOf(chosen) : 0},
               {op.getScale().convertToDouble()});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerCompress(CompressOp op, Steps steps, PhaseEmitter &emitter) {
  FailureOr<Value> state = emitter.state(op);
  if (failed(state))
    return failure();
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  emitter.inst(steps.front(),
               {emitter.get(op.getKv()), emitter.get(op.getGate()),
                emitter.weight(op.getApe()), *state, out},
               {rowsOf(op.getApe()), op.getOverlap()});
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerEntryStore(EntryStoreOp op, Steps steps,
                              PhaseEmitter &emitter) {
  FailureOr<Value> kv = emitter.kv(op);
  if (failed(kv))
    return failure();
  emitter.inst(steps.front(),
               {emitter.get(op.getX()), emitter.weight(op.getWeight()),
                emitter.tables().ropeFrequencies(op.getRope()), *kv},
               {int64_t(op.getRatio())}, {op.getEps().convertToDouble()});
  emitter.set(op.getResult(), *kv);
  return success();
}

} // namespace

void moe::addSparseLowerings(Lowerings &lowerings) {
  lowerings.add<RowStoreOp, lowerRowStore>();
  lowerings.add<ChooseEntriesOp, lowerChooseEntries>();
  lowerings.add<SparseAttentionOp, lowerSparseAttention>();
  lowerings.add<CompressOp, lowerCompress>();
  lowerings.add<EntryStoreOp, lowerEntryStore>();
}
