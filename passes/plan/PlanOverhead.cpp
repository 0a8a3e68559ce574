#include "compiler/Machine/Targets/TargetAttr.h"
#include "passes/plan/PlanPasses.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANOVERHEADPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// What a step takes beside its instructions' own work.
struct Overhead {
  int64_t instructions = 0, meetings = 0;

  double seconds(const moert::StepOverheads &each) const {
    return each.step + double(instructions) * each.instruction +
           double(meetings) * each.meeting;
  }
};

struct PlanOverhead : plan::impl::PlanOverheadPassBase<PlanOverhead> {
  using PlanOverheadPassBase::PlanOverheadPassBase;

  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    if (!module->hasAttr(moe::kTargetAttr))
      return; // Of text, for which nothing can be predicted.
    auto target = moec::targetOf(module);
    if (failed(target))
      return signalPassFailure();
    module.walk([&](PhaseOp phase) {
      for (const moec::DeviceDesc &device : target->devices)
        explain(phase, device);
    });
    module->removeAttr(moe::kTargetAttr);
  }

private:
  void explain(PhaseOp phase, const moec::DeviceDesc &device) {
    Overhead overhead;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      auto runsOn = inst.getDevice().getDefiningOp<DeviceOp>();
      if (runsOn.getName() != StringRef(device.name))
        continue;
      ++overhead.instructions;
      overhead.meetings += inst.getBarrier();
    }
    if (overhead.instructions == 0)
      return;
    std::string reason;
    if (device.kernels.empty())
      reason = "No kernel was measured on " + device.name +
               ": its seconds are by peaks of the device and the part of them "
               "that kernels are taken to reach; starting steps and meeting "
               "is not counted.";
    else
      reason = "Seconds are by rates measured of each kernel; beside them a "
               "step starts its workers, goes through " +
               std::to_string(overhead.instructions) +
               " instructions and lets all meet " +
               std::to_string(overhead.meetings) + " times.";
    // Behind the explanations of ops, before what refers to them.
    OpBuilder builder(phase);
    Operation *last = nullptr;
    for (ExplainOp entry :
         phase->getParentOfType<ProgramOp>().getBody().getOps<ExplainOp>())
      last = entry;
    if (last)
      builder.setInsertionPointAfter(last);
    APFloat none(0.0);
    builder.create<ExplainOp>(phase.getLoc(), "overhead", /*layer=*/-1,
                              phase.getName(), device.name, "", reason, none,
                              none, none, none, none,
                              APFloat(overhead.seconds(device.overheads)));
    ++numEntries;
  }
};

} // namespace
