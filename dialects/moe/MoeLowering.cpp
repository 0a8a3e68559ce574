//===- MoeLowering.cpp - The instructions of every op ---------------------===//

#include "dialects/moe/Moe.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;

namespace {
using Steps = llvm::SmallVector<PlanStep>;

/// Adds `residual`, if there is one, to what the last of `steps` writes.
void addResidual(Steps &steps, Operation *op, Value residual) {
  if (!residual)
    return;
  if (residualDiesIn(op, residual))
    steps.back().accumulate = true;
  else
    steps.push_back({OpCode::Add});
}

/// What makes one of gate and up, within a limit or without one.
OpCode activationOf(const APFloat &limit) {
  return limit.isZero() ? OpCode::ActivationMul : OpCode::ClampedMul;
}

PlanStep headLinear(Value weight) {
  PlanStep step{OpCode::HeadLinear, {weight}};
  step.encodes = true;
  return step;
}
} // namespace

bool moe::residualDiesIn(Operation *op, Value residual) {
  // A block argument is the caller's buffer.
  Operation *producer = residual.getDefiningOp();
  if (!producer || producer->getBlock() != op->getBlock())
    return false;
  return llvm::count(op->getOperands(), residual) == 1 &&
         llvm::all_of(residual.getUsers(), [&](Operation *user) {
           return user == op || (user->getBlock() == op->getBlock() &&
                                 user->isBeforeInBlock(op));
         });
}

//===----------------------------------------------------------------------===//
// Whole-row ops
//===----------------------------------------------------------------------===//

Steps EmbeddingOp::getPlanSteps() { return {{OpCode::Embed}}; }

Steps RmsNormOp::getPlanSteps() { return {{OpCode::RmsNorm}}; }

Steps LayerNormOp::getPlanSteps() { return {{OpCode::LayerNorm}}; }

Steps LinearOp::getPlanSteps() {
  Steps steps{{OpCode::Linear, {getWeight()}}};
  addResidual(steps, getOperation(), getResidual());
  return steps;
}

Steps AddOp::getPlanSteps() { return {{OpCode::Add}}; }

Steps ScaleOp::getPlanSteps() { return {{OpCode::Scale}}; }

Steps ActivationMulOp::getPlanSteps() { return {{OpCode::ActivationMul}}; }

Steps SigmoidMulOp::getPlanSteps() { return {{OpCode::SigmoidMul}}; }

Steps FfnOp::getPlanSteps() {
  Steps steps;
  if (getFused())
    steps = {{OpCode::GateUp, {getGate(), getUp()}}};
  else
    steps = {{OpCode::Linear, {getGate()}},
             {OpCode::Linear, {getUp()}},
             {activationOf(getLimit())}};
  steps.push_back({OpCode::Linear, {getDown()}, ActivationSource::Inner});
  addResidual(steps, getOperation(), getResidual());
  return steps;
}

Steps LmHeadOp::getPlanSteps() { return {{OpCode::Linear, {getWeight()}}}; }

Steps TransferOp::getPlanSteps() { return {{OpCode::Copy}}; }

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

// Functions have one table per distinct #moe.rope: see KernelSelection.h.
Steps RopeOp::getPlanSteps() { return {{OpCode::RopeTable}, {OpCode::Rope}}; }

Steps MlaLatentOp::getPlanSteps() {
  return {{OpCode::RopeTable}, {OpCode::MlaLatent}};
}

Steps MlaAttentionOp::getPlanSteps() {
  // What the forms that fit become (moe-absorb-mla).
  if (getChosen())
    return {{OpCode::SparseAttention}};
  PlanStep step{OpCode::MlaAttention, {getWv()}};
  if (!getKTransposed())
    step.gemmWeights = {getWk(), getWv()};
  step.encodes = true;
  return {step};
}

Steps AbsorbQueryOp::getPlanSteps() {
  if (getKTransposed())
    return {headLinear(getWk())};
  return {{OpCode::AbsorbQuery}};
}

/// The second only where the cache is cut into spans.
Steps LatentAttentionOp::getPlanSteps() {
  return {{OpCode::LatentAttention}, {OpCode::LatentCombine}};
}

Steps ExpandValueOp::getPlanSteps() { return {headLinear(getWv())}; }

Steps KvStoreOp::getPlanSteps() { return {{OpCode::KvStore}}; }

/// As of LatentAttentionOp.
Steps GqaAttentionOp::getPlanSteps() {
  return {{OpCode::Attention}, {OpCode::LatentCombine}};
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

bool moe::isGrouped(Value ids) {
  return ids.use_empty() || llvm::any_of(ids.getUsers(), [](Operation *user) {
           if (auto transfer = dyn_cast<TransferOp>(user))
             return isGrouped(transfer.getResult());
           if (isa<SplitChoicesOp>(user))
             return false; // It has lists made of its own results.
           auto experts = dyn_cast<ExpertsOp>(user);
           return !experts || !experts.getSliceAttr();
         });
}

/// Logits, then `choose`, then lists of what each expert has to do.
static Steps routerSteps(Value weight, OpCode choose, Value ids) {
  Steps steps{{OpCode::Linear, {weight}}, {choose}};
  if (moe::isGrouped(ids))
    steps.push_back({OpCode::ExpertGroup});
  return steps;
}

Steps RouterOp::getPlanSteps() {
  return routerSteps(getWeight(), OpCode::Router, getIds());
}

Steps HashRouterOp::getPlanSteps() {
  return routerSteps(getWeight(), OpCode::HashRouter, getIds());
}

Steps SplitChoicesOp::getPlanSteps() {
  Steps steps{{OpCode::SplitChoices}};
  for (Value ids : {getFirstIds(), getLastIds()})
    if (moe::isGrouped(ids))
      steps.push_back({OpCode::ExpertGroup});
  return steps;
}

Steps ExpertsOp::getPlanSteps() {
  Steps steps;
  if (getSliceAttr())
    steps.push_back({OpCode::ExpertGroup});
  if (getFused())
    steps.push_back({OpCode::ExpertsGateUp, {getGate(), getUp()}});
  else
    steps.append({{OpCode::ExpertsLinear, {getGate()}},
                  {OpCode::ExpertsLinear, {getUp()}},
                  {hasScales() ? OpCode::ExpertsActivationMul
                               : activationOf(getLimit())}});
  steps.push_back(
      {OpCode::ExpertsLinear, {getDown()}, ActivationSource::Inner});
  steps.push_back({OpCode::ExpertsCombine});
  addResidual(steps, getOperation(), getResidual());
  return steps;
}
