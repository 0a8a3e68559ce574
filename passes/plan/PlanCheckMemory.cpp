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

moert::Checked usedBy(DeviceOp device) {
  using moert::Checked;
  return Checked(device.getWeightBytes()) + Checked(device.getKvBytes()) +
         Checked(device.getArenaBytes()) + Checked(device.getWorkspaceBytes()) +
         (Checked(device.getScratchBytes()) +
          Checked(device.getWorkerBytes())) *
             Checked(device.getCores());
}

struct PlanCheckMemory : plan::impl::PlanCheckMemoryPassBase<PlanCheckMemory> {
  using PlanCheckMemoryPassBase::PlanCheckMemoryPassBase;

  void runOnOperation() override {
    std::string over;
    using moert::Checked;
    // A GPU that shares the CPU's memory uses that one's budget as well.
    Checked shared(0);
    DeviceOp cpu;
    getOperation().walk([&](DeviceOp device) {
      if (device.getSharesMemory())
        shared = shared + usedBy(device);
      else if (device.getKind() == DeviceKind::Cpu)
        cpu = device;
    });
    getOperation().walk([&](DeviceOp device) {
      Checked used = usedBy(device) + (device == cpu ? shared : Checked(0));
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
