#include "llvm/ADT/DenseMap.h"
#include "passes/PlanHazards.h"
#include "passes/PlanPasses.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANSCHEDULEPASS
#include "passes/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

struct PlanSchedule : plan::impl::PlanSchedulePassBase<PlanSchedule> {
  using PlanSchedulePassBase::PlanSchedulePassBase;

  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](PhaseOp phase) {
      return failed(schedule(phase)) ? WalkResult::interrupt()
                                     : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

private:
  LogicalResult schedule(PhaseOp phase) {
    for (BufferOp buffer : phase.getBody().getOps<BufferOp>())
      if (!buffer.getOffset())
        return buffer.emitError("expected an offset; run plan-allocate first");
    llvm::DenseMap<Value, Epoch> epochs; // By device.
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      Epoch &epoch =
          epochs.try_emplace(inst.getDevice(), Epoch(phase.getMaxTokens()))
              .first->second;
      SmallVector<Access> accesses = accessesOf(inst);
      bool barrier = epoch.conflictsWith(accesses);
      inst.setBarrier(barrier);
      ++numInstructions;
      if (barrier) {
        epoch.clear();
        ++numBarriers;
      }
      epoch.add(accesses);
    }
    return success();
  }
};

} // namespace
