#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/DenseMap.h"
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

/// "; of memory derived from published runs, of arithmetic guessed": how sure
/// the parts are that kernels are taken to reach.
std::string basisOf(const moec::DeviceDesc &device) {
  auto wordsOf = [](const moec::Peak &peak) -> std::string {
    switch (peak.basis) {
    case moec::Basis::Unstated:
      return "";
    case moec::Basis::Guessed:
      return "guessed";
    case moec::Basis::Derived:
      return "derived from published runs";
    case moec::Basis::Measured:
      return "measured";
    }
    llvm_unreachable("a basis");
  };
  std::string memory = wordsOf(device.read), arithmetic = wordsOf(device.int8);
  if (memory.empty() || arithmetic.empty())
    return "";
  return " (of memory " + memory + ", of arithmetic " + arithmetic + ")";
}

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
      explainOverlap(phase, *target);
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
               "that kernels are taken to reach" +
               basisOf(device) +
               (device.overheads.instruction > 0
                    ? "; beside them launching each is counted."
                : device.overheads.meeting > 0
                    ? "; beside them meeting is counted."
                    : "; starting steps and meeting is not counted.");
    else
      reason = "Seconds are by rates measured of each kernel; beside them a "
               "step starts its workers, goes through " +
               std::to_string(overhead.instructions) +
               " instructions and lets all meet " +
               std::to_string(overhead.meetings) + " times.";
    addEntry(phase, "overhead", device.name, reason,
             overhead.seconds(device.overheads));
  }

  /// What a step takes less than its instructions one after the other, as
  /// queues work at the same time where events let them. An op's seconds are
  /// shared by its instructions.
  void explainOverlap(PhaseOp phase, const moec::TargetDesc &target) {
    llvm::DenseMap<Value, int64_t> parts;
    llvm::DenseMap<Value, double> queueFree, eventAt;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      ++parts[inst.getExplain()];
      queueFree[inst.getQueue()] = 0;
    }
    if (queueFree.size() < 2)
      return;
    double sum = 0, end = 0;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      auto explain = inst.getExplain().getDefiningOp<ExplainOp>();
      auto runsOn = inst.getDevice().getDefiningOp<DeviceOp>();
      const moec::DeviceDesc *device =
          target.find(std::string_view(runsOn.getName()));
      double seconds = explain.getSeconds().convertToDouble() /
                       double(parts[inst.getExplain()]);
      if (device)
        seconds += device->overheads.instruction +
                   (inst.getBarrier() ? device->overheads.meeting : 0);
      double &free = queueFree[inst.getQueue()];
      for (Value wait : inst.getWaits())
        free = std::max(free, eventAt.lookup(wait));
      free += seconds;
      if (Value event = inst.getEvent())
        eventAt[event] = free;
      sum += seconds;
      end = std::max(end, free);
    }
    addEntry(phase, "overlap", "all",
             "Devices and copies work at the same time: a step takes less than "
             "its parts one after the other.",
             end - sum);
  }

  /// Behind the explanations of ops, before what refers to them.
  void addEntry(PhaseOp phase, StringRef part, StringRef device,
                StringRef reason, double seconds) {
    OpBuilder builder(phase);
    Operation *last = nullptr;
    for (ExplainOp entry :
         phase->getParentOfType<ProgramOp>().getBody().getOps<ExplainOp>())
      last = entry;
    if (last)
      builder.setInsertionPointAfter(last);
    APFloat none(0.0);
    builder.create<ExplainOp>(phase.getLoc(), part, /*layer=*/-1,
                              phase.getName(), device, "", reason, none, none,
                              none, none, none, APFloat(seconds),
                              /*rejected=*/ArrayAttr());
    ++numEntries;
  }
};

} // namespace
