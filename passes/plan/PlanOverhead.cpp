#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "passes/moe/Support.h"
#include "passes/plan/PlanPasses.h"
#include "passes/schedule/Schedule.h"
#include "runtime/base/Text.h"
#include "runtime/schema/PhaseKind.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANOVERHEADPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;

namespace {

/// The costs of a step on one device, apart from the work of its instructions.
struct Overhead {
  int64_t instructions = 0, barriers = 0;

  double seconds(const moert::StepOverheads &each) const {
    return each.step + double(instructions) * each.instruction +
           double(barriers) * each.barrier;
  }
};

/// Returns how sure the assumed efficiency of kernels is, such as " (memory:
/// derived from published runs; arithmetic: guessed)".
std::string basisOf(const moec::DeviceDesc &device) {
  auto wordsOf = [](const moec::Peak &peak) -> std::string {
    switch (peak.basis) {
    case moec::Basis::Unstated:
      return "";
    case moec::Basis::Guessed:
      return "guessed";
    case moec::Basis::Derived:
      return "derived from published runs";
    case moec::Basis::Simulated:
      return "simulated";
    case moec::Basis::Measured:
      return "measured";
    }
    llvm_unreachable("a basis");
  };
  std::string memory = wordsOf(device.read), arithmetic = wordsOf(device.int8);
  if (memory.empty() || arithmetic.empty())
    return "";
  return " (memory: " + memory + "; arithmetic: " + arithmetic + ")";
}

struct PlanOverhead : plan::impl::PlanOverheadPassBase<PlanOverhead> {
  using PlanOverheadPassBase::PlanOverheadPassBase;

  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    if (!module->hasAttr(moe::kTargetAttr))
      return; // A plan read from text; nothing can be predicted for it.
    auto target = moec::targetOf(module);
    if (failed(target))
      return signalPassFailure();
    module.walk([&](PhaseOp phase) {
      for (const moec::DeviceDesc &device : target->devices)
        explain(phase, device);
      explainOverlap(phase, *target);
    });
    compare(module);
    module->removeAttr(moe::kTargetAttr);
    module->removeAttr(moe::kPredictedAttr);
  }

private:
  /// Says how far the plan is from what placement predicted.
  static void compare(mlir::ModuleOp module) {
    auto predicted = module->getAttrOfType<DictionaryAttr>(moe::kPredictedAttr);
    if (!predicted)
      return;
    llvm::StringMap<double> seconds;
    module.walk([&](ExplainOp entry) {
      seconds[entry.getPhase()] += entry.getSeconds().convertToDouble();
    });
    module.walk([&](PhaseOp phase) {
      auto before = predicted.getAs<FloatAttr>(phase.getName());
      if (!before)
        return;
      double own = seconds.lookup(phase.getName());
      if (phase.getName() == StringRef(nameOf(moert::PhaseKind::Decode)) &&
          !phase.getWithHead())
        own += seconds.lookup(StringRef(nameOf(moert::PhaseKind::Logits)));
      module.emitRemark() << phase.getName() << " takes "
                          << llvm::formatv(
                                 "{0:F4} ms, placement predicted "
                                 "{1:F4} ms ({2:F2} %)",
                                 1e3 * own, 1e3 * before.getValueAsDouble(),
                                 100 * (before.getValueAsDouble() / own - 1))
                                 .str();
    });
  }

  void explain(PhaseOp phase, const moec::DeviceDesc &device) {
    Overhead overhead;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      auto runsOn = inst.getDevice().getDefiningOp<DeviceOp>();
      if (runsOn.getName() != StringRef(device.name))
        continue;
      ++overhead.instructions;
      overhead.barriers += inst.getBarrier();
    }
    if (overhead.instructions == 0)
      return;
    std::string reason;
    if (device.kernels.empty())
      reason = "No kernel was measured on " + device.name +
               ": its seconds are estimated from the device's peak rates and "
               "an assumed efficiency of its kernels" +
               basisOf(device) +
               (device.overheads.instruction > 0
                    ? ", plus the time to launch each instruction."
                : device.overheads.barrier > 0
                    ? ", plus the time of barriers."
                    : ", without the time of starting steps and of barriers.");
    else if (device.kernelBasis == moec::Basis::Simulated)
      reason =
          "Seconds come from simulated rates of kernels on " + device.name +
          " (a clock that was calibrated on another GPU); kernels without "
          "a rate are estimated from peak rates and an assumed efficiency" +
          basisOf(device) + ". In addition, each instruction is launched.";
    else
      reason = "Seconds come from the measured rate of each kernel. In "
               "addition, a step wakes the workers, starts " +
               moert::counted(overhead.instructions, "instruction") +
               " and waits at " + moert::counted(overhead.barriers, "barrier") +
               ".";
    addEntry(phase, "overhead", device.name, reason,
             overhead.seconds(device.overheads));
  }

  /// Adds an entry for the overlap of queues: the time of a step minus the sum
  /// of its instructions' times, which is negative. An op's seconds are divided
  /// equally among its instructions.
  void explainOverlap(PhaseOp phase, const moec::TargetDesc &target) {
    llvm::DenseMap<Value, int64_t> parts;
    llvm::DenseMap<Value, int> queueNumbers, signalledBy;
    std::vector<moec::TaskQueue> queues;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      ++parts[inst.getExplain()];
      if (queueNumbers.try_emplace(inst.getQueue(), int(queues.size())).second)
        queues.push_back(queueOf(inst, target));
    }
    if (queues.size() < 2)
      return;
    std::vector<moec::Task> tasks;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      auto explain = inst.getExplain().getDefiningOp<ExplainOp>();
      double part = double(parts[inst.getExplain()]);
      moec::Task task{queueNumbers.lookup(inst.getQueue()),
                      explain.getSeconds().convertToDouble() / part};
      for (Value wait : inst.getWaits())
        if (auto it = signalledBy.find(wait); it != signalledBy.end())
          task.after.push_back(it->second);
      task.barrier = inst.getBarrier();
      task.bytes = (explain.getWeightBytes().convertToDouble() +
                    explain.getKvBytes().convertToDouble()) /
                   part;
      if (Value event = inst.getEvent())
        signalledBy[event] = int(tasks.size());
      tasks.push_back(std::move(task));
    }
    moec::StepTimes times = moec::simulate(tasks, queues, target);
    addEntry(phase, "overlap", "all",
             "Devices and copies work at the same time: a step takes less than "
             "its parts one after the other.",
             times.end - times.sum);
  }

  static moec::TaskQueue queueOf(InstOp inst, const moec::TargetDesc &target) {
    auto runsOn = inst.getDevice().getDefiningOp<DeviceOp>();
    const moec::DeviceDesc *device =
        target.find(std::string_view(runsOn.getName()));
    return device ? moec::TaskQueue::of(int(device - target.devices.data()),
                                        target)
                  : moec::TaskQueue();
  }

  /// Adds an entry after the explanations of ops and before the instructions
  /// that refer to them.
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
