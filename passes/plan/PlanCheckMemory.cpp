#include "passes/moe/Support.h"
#include "passes/plan/PlanPasses.h"
#include "runtime/base/CheckedMath.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANCHECKMEMORYPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

struct PlanCheckMemory : plan::impl::PlanCheckMemoryPassBase<PlanCheckMemory> {
  using PlanCheckMemoryPassBase::PlanCheckMemoryPassBase;

  void runOnOperation() override {
    std::string over;
    getOperation().walk([&](DeviceOp device) {
      using moert::Checked;
      Checked used = Checked(device.getWeightBytes()) +
                     Checked(device.getKvBytes()) +
                     Checked(device.getArenaBytes()) +
                     Checked(device.getWorkspaceBytes()) +
                     (Checked(device.getScratchBytes()) +
                      Checked(device.getWorkerBytes())) *
                         Checked(device.getCores());
      if (used.valid() && used.value() <= uint64_t(device.getMemoryBytes()))
        return;
      over += "\n  " + device.getName().str() + ": " +
              (used.valid() ? moe::formatCapacity(double(used.value()))
                            : "more than can be counted") +
              " of " + moe::formatCapacity(double(device.getMemoryBytes()));
    });
    if (over.empty())
      return;
    (void)moe::userError(getOperation(), "the plan does not fit" + over,
                         "leave memory free with --vram-limit or --dram-limit, "
                         "or use a target with more of it");
    signalPassFailure();
  }
};

} // namespace
