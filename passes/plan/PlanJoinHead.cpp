#include "mlir/IR/IRMapping.h"
#include "passes/moe/Support.h"
#include "passes/plan/PlanHazards.h"
#include "passes/plan/PlanPasses.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANJOINHEADPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;
using moert::PhaseKind;

namespace {

PhaseOp findPhase(ProgramOp program, PhaseKind kind) {
  for (auto phase : program.getBody().getOps<PhaseOp>())
    if (std::string_view(phase.getName()) == nameOf(kind))
      return phase;
  return {};
}

/// Returns the only instruction of `phase` that writes `buffer`, if it is a
/// copy from another device; null otherwise.
InstOp copyInto(Value buffer, PhaseOp phase) {
  InstOp writer;
  for (InstOp inst : phase.getBody().getOps<InstOp>())
    for (const Access &access : accessesOf(inst))
      if (access.writes && access.region == buffer) {
        if (writer)
          return {};
        writer = inst;
      }
  return writer && writer.getOp() == "copy" ? writer : InstOp();
}

struct PlanJoinHead : plan::impl::PlanJoinHeadPassBase<PlanJoinHead> {
  using PlanJoinHeadPassBase::PlanJoinHeadPassBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>()) {
      PhaseOp decode = findPhase(program, PhaseKind::Decode);
      PhaseOp logits = findPhase(program, PhaseKind::Logits);
      if (decode && logits && decode.getMaxTokens() == 1 &&
          findPhase(program, PhaseKind::Prefill) &&
          returnsToItsDevice(decode, logits))
        join(decode, logits);
    }
  }

private:
  /// Returns whether the hidden state is copied from a device to the host, and
  /// by "logits" only back to the same device. Elsewhere nothing is gained, and
  /// a CPU's kernels for the head may be for more tokens than one.
  static bool returnsToItsDevice(PhaseOp decode, PhaseOp logits) {
    InstOp toHost = copyInto(decode.getBind().getOutput(), decode);
    if (!toHost)
      return false;
    Value home = toHost.getArgument(0).getDefiningOp<BufferOp>().getDevice();
    Value input = logits.getBind().getInput();
    bool isRead = false;
    for (InstOp inst : logits.getBody().getOps<InstOp>()) {
      if (!llvm::is_contained(inst.getArguments(), input))
        continue;
      isRead = true;
      Value target = inst.getOp() == "copy" ? inst.getArgument(1) : Value();
      if (!target || target.getDefiningOp<BufferOp>().getDevice() != home)
        return false;
    }
    return isRead;
  }

  /// Appends the instructions of `logits` to `decode`, whose output they read.
  void join(PhaseOp decode, PhaseOp logits) {
    BindOp bind = decode.getBind(), headBind = logits.getBind();
    Value hidden = bind.getOutput();
    IRMapping mapping;
    mapping.map(headBind.getInput(), hidden);
    OpBuilder builder(bind);
    for (Operation &op : logits.getBody().front().without_terminator())
      if (&op != headBind.getInput().getDefiningOp())
        cloneInto(builder, op, decode.getName(), mapping);
    bind.getOutputMutable().assign(mapping.lookup(headBind.getOutput()));
    decode.setWithHead(true);
    shortcut(decode, hidden);
    copyInOrder(decode);
    ++numJoined;
  }

  /// Clones an instruction with its own explanation, which belongs to `phase`.
  /// Instructions of one op keep sharing one explanation.
  static void cloneInto(OpBuilder &builder, Operation &op, StringRef phase,
                        IRMapping &mapping) {
    if (auto inst = dyn_cast<InstOp>(op))
      if (auto explain = inst.getExplain().getDefiningOp<ExplainOp>();
          !mapping.contains(explain.getResult())) {
        OpBuilder beside(explain);
        beside.setInsertionPointAfter(explain);
        auto own = cast<ExplainOp>(beside.clone(*explain));
        own.setPhase(phase);
        mapping.map(explain.getResult(), own.getResult());
      }
    builder.clone(op, mapping);
  }

  /// Lets the head read the hidden state on the device that computed it, where
  /// the phases handed it over through the host: drops the copy to `hidden` and
  /// the copies from there back to its device.
  static void shortcut(PhaseOp decode, Value hidden) {
    InstOp toHost = copyInto(hidden, decode);
    Value source = toHost.getArgument(0);
    SmallVector<InstOp> back;
    for (InstOp inst : decode.getBody().getOps<InstOp>())
      if (inst != toHost && llvm::is_contained(inst.getArguments(), hidden))
        back.push_back(inst);
    for (InstOp inst : back) {
      Value target = inst.getArgument(1);
      eraseWithExplanation(inst);
      target.replaceAllUsesWith(source);
      target.getDefiningOp()->erase();
    }
    eraseWithExplanation(toHost);
    hidden.getDefiningOp()->erase();
  }

  /// Moves copies to the compute queue on devices that have both queues. The
  /// last copy of a step, that of its logits, has nothing to overlap with, and
  /// a GPU with one queue synchronises with the CPU in fewer graph nodes.
  static void copyInOrder(PhaseOp decode) {
    llvm::DenseMap<Value, Value> computes;
    for (InstOp inst : decode.getBody().getOps<InstOp>())
      if (auto queue = inst.getQueue().getDefiningOp<QueueOp>();
          queue.getKind() == QueueKind::Compute)
        computes.try_emplace(queue.getDevice(), queue.getResult());
    for (InstOp inst : decode.getBody().getOps<InstOp>())
      if (auto queue = inst.getQueue().getDefiningOp<QueueOp>();
          queue.getKind() == QueueKind::Copy)
        if (Value compute = computes.lookup(queue.getDevice()))
          inst.getQueueMutable().assign(compute);
  }

  static void eraseWithExplanation(InstOp inst) {
    auto explain = inst.getExplain().getDefiningOp<ExplainOp>();
    inst.erase();
    if (explain && explain->use_empty())
      explain.erase();
  }
};

} // namespace
