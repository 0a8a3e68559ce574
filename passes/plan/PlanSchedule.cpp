#include "llvm/ADT/BitVector.h"
#include "passes/plan/PlanHazards.h"
#include "passes/plan/PlanPasses.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANSCHEDULEPASS
#include "passes/plan/PlanPasses.h.inc"
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
    auto insts = llvm::to_vector(phase.getBody().getOps<InstOp>());
    std::vector<Ordering> orderings = orderingsOf(phase);
    llvm::BitVector signals(unsigned(insts.size()));
    for (const Ordering &ordering : orderings)
      for (int32_t wait : ordering.waits)
        signals.set(unsigned(wait));
    numInstructions += insts.size();
    numEvents += signals.count();
    for (auto [index, ordering] : llvm::enumerate(orderings)) {
      SmallVector<Value> waits;
      for (int32_t wait : ordering.waits)
        waits.push_back(insts[wait].getEvent());
      // The number of results is fixed when an op is created.
      insts[index] =
          rebuild(insts[index], waits, signals.test(unsigned(index)));
      insts[index].setBarrier(ordering.barrier);
      numBarriers += ordering.barrier;
      numWaits += ordering.waits.size();
    }
    return success();
  }
};

} // namespace
