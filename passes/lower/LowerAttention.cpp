//===- LowerAttention.cpp - Lowerings of RoPE and attention ---------------===//

#include "kernels/KvSplitCount.h"
#include "kernels/Scratch.h"
#include "passes/lower/LowerOps.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;
using plan::Encoding;

namespace {

LogicalResult lowerRope(RopeOp op, Steps steps, PhaseEmitter &emitter) {
  // The instruction rotates in place.
  if (!residualDiesIn(op, op.getX()))
    return op.emitError("expected the rotated value to have no later use");
  Value x = emitter.get(op.getX());
  int64_t heads = op.getHeads();
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::RopeTable:
      emitter.ropeTable(step, op.getRope());
      break;
    case OpCode::Rope:
      emitter.inst(step, {x, emitter.ropeTable(op.getRope())},
                   {heads, columnsOf(op.getX()) / heads,
                    int64_t(op.getOffset()), op.getRope().getDim(),
                    op.getRope().getNeox()});
      break;
    default:
      return unexpectedStep(op, step);
    }
  emitter.set(op.getResult(), x);
  return success();
}

LogicalResult lowerMlaLatent(MlaLatentOp op, Steps steps,
                             PhaseEmitter &emitter) {
  int64_t rope = op.getRope().getDim();
  FailureOr<Value> kv = emitter.kv(op);
  if (failed(kv))
    return failure();
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::RopeTable:
      emitter.ropeTable(step, op.getRope());
      break;
    case OpCode::MlaLatent:
      emitter.inst(step,
                   {emitter.get(op.getX()), emitter.weight(op.getWeight()),
                    emitter.ropeTable(op.getRope()), *kv},
                   {columnsOf(op.getX()) - rope, rope},
                   {op.getEps().convertToDouble()});
      break;
    default:
      return unexpectedStep(op, step);
    }
  emitter.set(op.getResult(), *kv);
  return success();
}

/// A HeadLinear: [w[h] x[h] | last `tail` columns of x[h]] for each head.
Value emitHeadLinear(const SelectedStep &step, Value x, Value weight,
                     int64_t tail, PhaseEmitter &emitter) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(weight.getType()).getShape();
  Value out = emitter.rows(emitter.label(), shape[0] * (shape[1] + tail));
  emitter.inst(
      step,
      {emitter.get(x), emitter.weight(weight, step.layoutOf(weight)), out},
      {shape[0], shape[1], shape[2], tail});
  return out;
}

LogicalResult lowerAbsorbQuery(AbsorbQueryOp op, Steps steps,
                               PhaseEmitter &emitter) {
  if (op.getKTransposed()) {
    emitter.set(op.getResult(),
                emitHeadLinear(steps.front(), op.getQ(), op.getWk(),
                               op.getRope(), emitter));
    return success();
  }
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  emitter.inst(steps.front(),
               {emitter.get(op.getQ()), emitter.weight(op.getWk()), out},
               {int64_t(op.getHeads()), int64_t(op.getNope()),
                int64_t(op.getRope()), int64_t(op.getLatent())});
  emitter.set(op.getResult(), out);
  return success();
}

/// Spans into which attention cuts the cache so that a step of few tokens has
/// work for all cores of a CPU. `groups` of heads are work for several already,
/// but where all read the same rows (`latent`) one core does them at once, if
/// it can; a token sees `window` rows, or all.
int64_t spansOf(int64_t groups, bool latent, int64_t window,
                PhaseEmitter &emitter) {
  const moec::DeviceDesc &device =
      *emitter.tables().target().find(emitter.deviceName());
  PhaseAttr phase = emitter.phase();
  if (device.kind != moec::DeviceKind::Cpu)
    return 1;
  int64_t wanted = moek::fewestKvSplits(latent ? 1 : groups, device.cores);
  if (phase.getSequences() > 1) {
    // Each token has a cache of its own, of which groups of heads are work too;
    // more spans than the shortest step needs are sums for the longest.
    int64_t items = phase.getMinTokens() * groups;
    wanted = std::max<int64_t>(1, (device.cores + items - 1) / items);
  } else if (phase.getMaxTokens() > moec::kFewTokens) {
    return 1;
  }
  int64_t rows = phase.getContextLength();
  if (window)
    rows = std::min(rows, window);
  int64_t most = (rows + moek::kLeastSplitRows - 1) / moek::kLeastSplitRows;
  return std::min({wanted, most, moek::kMostKvSplits});
}

/// Where attention writes: its result, or what its spans come to.
Value spanSums(Value out, int64_t heads, int64_t value, int64_t splits,
               PhaseEmitter &emitter) {
  return splits == 1 ? out
                     : emitter.buffer(emitter.label() + ".spans", Encoding::F32,
                                      heads * (value + 2), splits);
}

LogicalResult lowerLatentAttention(LatentAttentionOp op, Steps steps,
                                   PhaseEmitter &emitter) {
  int64_t heads = op.getHeads(), latent = op.getLatent();
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  int64_t splits =
      spansOf((heads + moek::kLatentHeads - 1) / moek::kLatentHeads,
              /*latent=*/true, /*window=*/0, emitter);
  Value sums = spanSums(out, heads, latent, splits, emitter);
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::LatentAttention:
      emitter.inst(step,
                   {emitter.get(op.getQ()), emitter.get(op.getKv()), sums},
                   {heads, latent, int64_t(op.getRope()), splits},
                   {op.getScale().convertToDouble()});
      break;
    case OpCode::LatentCombine:
      if (splits > 1)
        emitter.inst(step, {sums, out}, {heads, latent, splits, /*window=*/0});
      break;
    default:
      return unexpectedStep(op, step);
    }
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerKvStore(KvStoreOp op, Steps steps, PhaseEmitter &emitter) {
  FailureOr<Value> kv = emitter.kv(op);
  if (failed(kv))
    return failure();
  int64_t heads = op.getKvHeads();
  emitter.inst(
      steps.front(), {emitter.get(op.getK()), emitter.get(op.getV()), *kv},
      {heads, columnsOf(op.getK()) / heads, columnsOf(op.getV()) / heads});
  emitter.set(op.getResult(), *kv);
  return success();
}

LogicalResult lowerGqaAttention(GqaAttentionOp op, Steps steps,
                                PhaseEmitter &emitter) {
  int64_t heads = op.getHeads(), value = op.getValue();
  int64_t window = op.getWindow();
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  int64_t splits = spansOf(op.getKvHeads(), /*latent=*/false, window, emitter);
  Value sums = spanSums(out, heads, value, splits, emitter);
  for (const SelectedStep &step : steps)
    switch (step.step.op) {
    case OpCode::Attention:
      emitter.inst(
          step,
          {emitter.get(op.getQ()), emitter.get(op.getKv()),
           emitter.weight(op.getSinks()), sums},
          {heads, int64_t(op.getKvHeads()), int64_t(op.getKey()), value, splits,
           window},
          {op.getScale().convertToDouble(), op.getSoftcap().convertToDouble()});
      break;
    case OpCode::LatentCombine:
      if (splits > 1)
        emitter.inst(step, {sums, out}, {heads, value, splits, window});
      break;
    default:
      return unexpectedStep(op, step);
    }
  emitter.set(op.getResult(), out);
  return success();
}

LogicalResult lowerExpandValue(ExpandValueOp op, Steps steps,
                               PhaseEmitter &emitter) {
  emitter.set(op.getResult(), emitHeadLinear(steps.front(), op.getX(),
                                             op.getWv(), /*tail=*/0, emitter));
  return success();
}

LogicalResult lowerMlaAttention(MlaAttentionOp op, Steps steps,
                                PhaseEmitter &emitter) {
  const SelectedStep &step = steps.front();
  Value out = emitter.rows(emitter.label(), columnsOf(op.getResult()));
  auto weight = [&](Value w) { return emitter.weight(w, step.layoutOf(w)); };
  Value wk = weight(op.getWk()), none;
  bool transposed = op.getKTransposed();
  emitter.inst(
      step,
      {emitter.get(op.getQ()), emitter.get(op.getKv()), transposed ? none : wk,
       transposed ? wk : none, weight(op.getWv()), out},
      {int64_t(op.getHeads()), int64_t(op.getNope()), int64_t(op.getRope()),
       int64_t(op.getLatent()), int64_t(op.getValue())},
      {op.getScale().convertToDouble()});
  emitter.set(op.getResult(), out);
  return success();
}

} // namespace

void moe::addAttentionLowerings(Lowerings &lowerings) {
  lowerings.add<RopeOp, lowerRope>();
  lowerings.add<MlaLatentOp, lowerMlaLatent>();
  lowerings.add<AbsorbQueryOp, lowerAbsorbQuery>();
  lowerings.add<LatentAttentionOp, lowerLatentAttention>();
  lowerings.add<KvStoreOp, lowerKvStore>();
  lowerings.add<GqaAttentionOp, lowerGqaAttention>();
  lowerings.add<ExpandValueOp, lowerExpandValue>();
  lowerings.add<MlaAttentionOp, lowerMlaAttention>();
}
