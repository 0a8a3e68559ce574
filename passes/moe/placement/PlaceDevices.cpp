#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Format.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/SliceExperts.h"
#include "passes/moe/kernels/AlternativeSeconds.h"
#include "passes/moe/placement/NodeUses.h"
#include "passes/moe/placement/PlacementReasons.h"
#include "passes/moe/placement/WholePlan.h"
#include "runtime/base/Text.h"

#include <limits>

namespace mlir::moe {
#define GEN_PASS_DEF_PLACEDEVICESPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

using Choice = PlacementSearch::Choice;

std::string oneDecimal(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.1f", value);
  return text;
}

std::string describe(const DeviceUse &use, int64_t kvRows) {
  return formatCapacity(double(use.weights)) + " of weights, " +
         formatCapacity(double(use.kv)) + " of KV cache for " +
         std::to_string(kvRows) + " positions, " +
         formatCapacity(double(use.activations)) + " of activations, " +
         formatCapacity(double(use.scratch + use.staging)) +
         " of scratch and staging" +
         (use.slots ? ", " + formatCapacity(double(use.slots)) +
                          " of slots for streamed experts"
                    : "");
}

struct PlaceDevices : moe::impl::PlaceDevicesPassBase<PlaceDevices> {
  using PlaceDevicesPassBase::PlaceDevicesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    if (failed(target) || failed(checkPhases(module)) ||
        failed(checkPlaced(module, *target)))
      return signalPassFailure();
    auto targets = withNodeUses(module, *target, numa);
    if (failed(targets))
      return signalPassFailure();
    module.walk([&](FileRowsOpInterface op) { keepTable(op, *target); });

    const PlacementOptions options{.objective = optimizeFor,
                                   .typicalPrompt = typicalPrompt,
                                   .deferExperts = deferExperts,
                                   .mayPack = mayPack(),
                                   .streamExperts = streamExperts,
                                   .pinWeights = pinWeights,
                                   .ubatch = ubatch};
    std::string compared;
    SearchCounts counts;
    const std::unique_ptr<WholePlan> plan =
        chooseWholePlan(module, *targets, options, counts, compared);
    const Choice &choice = plan->choice;
    if (failed(checkFit(module, plan->target, plan->problem, choice)))
      return signalPassFailure();
    if (plan->target.host().nodeUse != target->host().nodeUse)
      recordNodeUse(module, plan->target,
                    " (predicted for a request: " + compared + ")");
    recordPredicted(module, *plan);
    record(plan->problem, plan->target, plan->times, plan->search, choice);
    report(module, *plan, options, counts);
    WeightTable weights(module);
    for (const ExpertSplit &split : choice.splits)
      divide(plan->problem, plan->target, split, choice, weights);
    eraseAbsent(module, plan->problem, choice, weights);
  }

private:
  bool mayPack() const { return weights != WeightsMode::Reference; }

  /// Records the seconds of steps that the plan adds up too: typical ones.
  static void recordPredicted(ModuleOp module, const WholePlan &plan) {
    Builder builder(module);
    const StepPrediction::Prediction &predicted = plan.choice.predicted;
    SmallVector<NamedAttribute> seconds;
    auto add = [&](StringRef phase, double value) {
      if (value > 0)
        seconds.push_back(
            builder.getNamedAttr(phase, builder.getF64FloatAttr(value)));
    };
    if (func::FuncOp decode = findPhase(module, PhaseKind::Decode);
        decode && phaseOf(decode).getMaxTokens() == 1)
      add(nameOf(PhaseKind::Decode), predicted.decode);
    const Streaming &streaming = plan.problem.streaming();
    auto longest = [&](bool streams) {
      return plan.times.longestStep(plan.choice.assignment, plan.choice.splits,
                                    streams);
    };
    const int64_t pays = streaming.from == 0
                             ? 0
                             : plan.times.streamsFrom(plan.choice.assignment,
                                                      plan.choice.splits);
    const int64_t from = streaming.must ? streaming.from : pays;
    if (func::FuncOp prefill = findPhase(module, PhaseKind::Prefill);
        prefill && plan.times.longestTokens() == plan.stepTokens)
      add(nameOf(from > phaseOf(prefill).getMinTokens()
                     ? PhaseKind::StreamedPrefill
                     : PhaseKind::Prefill),
          longest(from > 0));
    module->setAttr(kPredictedAttr, builder.getDictionaryAttr(seconds));
    if (streaming.from != 0)
      module->setAttr(kStreamingAttr,
                      StreamingAttr::get(module.getContext(), pays,
                                         longest(true), longest(false)));
  }

  LogicalResult checkPhases(ModuleOp module) {
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!phaseOf(function))
        return function.emitError()
               << "@" << function.getName() << " has no " << kPhaseAttr
               << "; run moe-specialize-phases first";
    return success();
  }

  /// Checks that devices that are already set exist in the target.
  LogicalResult checkPlaced(ModuleOp module, const moec::TargetDesc &target) {
    LogicalResult result = success();
    module.walk([&](CostOpInterface op) {
      auto device = op->getAttrOfType<StringAttr>(kDeviceAttr);
      if (device && !target.find(std::string_view(device.getValue())))
        result = op.emitError()
                 << labelOf(op) << " is on " << device << ", which "
                 << target.name << " does not have";
    });
    return result;
  }

  LogicalResult checkFit(ModuleOp module, const moec::TargetDesc &target,
                         const PlacementProblem &problem,
                         const Choice &choice) {
    // One line per device, starting with those that are too small.
    std::string shortOf, others;
    moec::MemoryBudgets budgets(target);
    for (auto [i, device] : llvm::enumerate(target.devices)) {
      bool fits = budgets.left(i, totalsOf(choice.use)) >= 0;
      (fits ? others : shortOf) +=
          line(device, choice.use[i], budgets.of(i), problem.kvRows());
    }
    if (shortOf.empty())
      return success();
    std::string fix = "use a target with more memory, or a model file with "
                      "fewer bits per weight" +
                      bitsThatFit(target, problem, choice);
    if (target.devices.size() > target.gpuCount() + 1 ||
        llvm::any_of(problem.groups(),
                     [](const OpGroup &group) { return group.device >= 0; }))
      fix = "place other ops on other devices, " + fix;
    return userError(module,
                     "the model does not fit " + target.name + shortOf + others,
                     fix);
  }

  /// Returns the bits per weight with which the model would fit all devices
  /// together, as ": 3.1 in place of 4.8"; empty if fewer bits would not help.
  static std::string bitsThatFit(const moec::TargetDesc &target,
                                 const PlacementProblem &problem,
                                 const Choice &choice) {
    double weights = 0, room = 0, elements = problem.weightElements();
    for (auto [device, use] : llvm::zip_equal(target.devices, choice.use)) {
      weights += double(use.weights);
      room -= double(use.total() - use.weights);
      if (!device.sharesMemory)
        room += double(device.budgetBytes());
    }
    double now = 8 * weights / elements, then = now * room / weights;
    // No format has so few bits.
    if (!(elements > 0) || !(then >= 1.5) || then >= now)
      return "";
    return ": " + oneDecimal(then) + " in place of " + oneDecimal(now);
  }

  /// Describes the memory that a device needs, its budget and the parts of the
  /// need.
  static std::string line(const moec::DeviceDesc &device, const DeviceUse &use,
                          int64_t budget, int64_t kvRows) {
    std::string text =
        "\n  " + device.name + ": " + formatCapacity(double(use.total())) +
        " of " + formatCapacity(double(budget)) +
        (device.sharesMemory ? " that it shares with the host" : "") + " (" +
        describe(use, kvRows);
    // The user's limit, or what is left for the system.
    if (device.reservedBytes && !device.sharesMemory)
      text += "; " + formatCapacity(double(device.reservedBytes)) +
              " more are not to be used";
    return text + ")";
  }

  void record(const PlacementProblem &problem, const moec::TargetDesc &target,
              const StepPrediction &times, const PlacementSearch &search,
              const Choice &choice) {
    PlacementReasons reasons(problem, target, times, search, choice);
    AlternativeSeconds seconds(mayPack());
    for (auto [index, group] : llvm::enumerate(problem.groups())) {
      if (choice.assignment[index] == kAbsent)
        continue;
      const moec::DeviceDesc &device = target.devices[choice.assignment[index]];
      std::string reason = group.device < 0 ? reasons.of(int(index)) : "";
      std::map<int, std::string> rejected = reasons.against(int(index));
      for (Operation *op : group.ops) {
        op->setAttr(kDeviceAttr,
                    StringAttr::get(op->getContext(), device.name));
        takeReason(op, device);
        if (group.device < 0)
          appendReason(op, reason);
        for (const auto &[other, why] : rejected)
          seconds.rejectDevice(op, target.devices[other], device, why);
        (device.kind == moec::DeviceKind::Cuda ? numGpu : numHost) += 1;
      }
    }
  }

  /// Keeps the reason that an op's form has on its device.
  static void takeReason(Operation *op, const moec::DeviceDesc &device) {
    auto reasons = op->getAttrOfType<DictionaryAttr>(kReasonOnAttr);
    if (!reasons)
      return;
    op->removeAttr(kReasonOnAttr);
    std::string placed;
    if (auto reason = op->getAttrOfType<StringAttr>(kReasonAttr))
      placed = reason.str();
    op->removeAttr(kReasonAttr);
    if (auto reason = reasons.getAs<StringAttr>(device.name))
      appendReason(op, reason.getValue());
    if (!placed.empty())
      appendReason(op, placed);
  }

  /// Puts each attention's form on its device in place of the alternatives, and
  /// erases the ops and computed weights of others.
  static void eraseAbsent(ModuleOp module, const PlacementProblem &problem,
                          const Choice &choice, WeightTable &weights) {
    auto isAbsent = [&](Operation *op) {
      int group = problem.groupOf(op);
      return group >= 0 && choice.assignment[group] == kAbsent;
    };
    module.walk([&](AlternativesOp op) {
      for (Value way : op.getWays())
        if (!isAbsent(way.getDefiningOp()))
          op.getResult().replaceAllUsesWith(way);
      op.erase();
    });
    SmallVector<Operation *> made;
    module.walk([&](Operation *op) {
      if (op->removeAttr(kOnlyOnAttr))
        made.push_back(op);
    });
    llvm::SetVector<WeightOp> computed;
    // Users come after what they use.
    for (Operation *op : llvm::reverse(made)) {
      auto weight = dyn_cast<WeightRefOp>(op);
      if (weight && weight->use_empty())
        computed.insert(weights.of(weight));
      if (isAbsent(op) || (weight && weight->use_empty()))
        op->erase();
    }
    module.walk([&](WeightRefOp op) { computed.remove(weights.of(op)); });
    for (WeightOp weight : computed)
      weights.erase(weight);
  }

  /// The model file, of which the op reads rows, is the host's.
  static void keepTable(FileRowsOpInterface op,
                        const moec::TargetDesc &target) {
    const std::string &host = target.host().name;
    auto type = cast<RankedTensorType>(op.getFileTable().getType());
    op->setAttr(kDeviceAttr, StringAttr::get(op->getContext(), host));
    appendReason(op, "On " + host + ": the model file has its table of " +
                         formatCapacity(double(getTensorBytes(type))) +
                         ", which is not in memory; a token reads " +
                         Twine(int64_t(fileReadsOf(op))) +
                         " rows of it, each a page of the disk or more.");
  }

  /// Slices a layer's experts; the rest stays on the group's device.
  void divide(const PlacementProblem &problem, const moec::TargetDesc &target,
              const ExpertSplit &split, const Choice &choice,
              WeightTable &weights) {
    const moec::DeviceDesc &ofFirst = target.devices[split.device];
    const moec::DeviceDesc &ofRest =
        target.devices[choice.assignment[split.group]];
    // If one more expert does not fit, memory is the limit.
    const int64_t each =
        problem.groups()[split.group].weightBytes / split.experts;
    const moec::MemoryBudgets budgets(target);
    const bool isFull =
        !budgets.isSame(split.device, choice.assignment[split.group]) &&
        budgets.left(split.device, totalsOf(choice.use)) < each;
    const std::string &device = ofFirst.name;
    std::string part = std::to_string(split.count()) + " of " +
                       std::to_string(split.experts) + " experts";
    bool areHot = !areLeadingExperts(split.chosen);
    for (Operation *op : problem.groups()[split.group].ops) {
      SlicedExperts sliced =
          sliceExperts(cast<ExpertsOp>(op), split.chosen, weights);
      appendReason(sliced.rest, part + " are on " + device + ".");
      AlternativeSeconds seconds(mayPack());
      for (Operation *op :
           {sliced.first.getOperation(), sliced.rest.getOperation()})
        op->removeAttr(kRejectedAttr);
      seconds.rejectDevice(
          sliced.rest, ofFirst, ofRest,
          isFull ? "memory is left for no more than " + part
                 : "a request would not be faster with more than " + part +
                       " there");
      seconds.rejectDevice(sliced.first, ofRest, ofFirst,
                           isFull ? device + " has memory for them"
                                  : "with fewer of them on " + device +
                                        " a request would take longer");
      auto place = [&](Operation *op, const Twine &why) {
        op->setAttr(kDeviceAttr, StringAttr::get(op->getContext(), device));
        op->removeAttr(kReasonAttr);
        appendReason(op, "On " + device + ": " + why);
      };
      place(
          sliced.first,
          part +
              (areHot ? ", those that the router profile has used most" : "") +
              ", expected to receive " + formatPercent(split.share) +
              " of the choices: " +
              (isFull ? "no memory is left for more."
                      : "with more or fewer of them there a request would "
                        "take longer."));
      place(sliced.sum, "adds the results of both devices' experts.");
      numGpu += 2;
    }
  }

  void report(ModuleOp module, const WholePlan &plan,
              const PlacementOptions &options, const SearchCounts &counts) {
    const moec::TargetDesc &target = plan.target;
    const PlacementProblem &problem = plan.problem;
    const StepPrediction &times = plan.times;
    const PlacementSearch &search = plan.search;
    const Choice &choice = plan.choice;
    const RequestMix mix =
        requestMix(module, options.objective, options.typicalPrompt, 0);
    for (auto [device, use] : llvm::zip_equal(target.devices, choice.use))
      module.emitRemark() << device.name << ": "
                          << formatCapacity(double(use.total())) << " of "
                          << formatCapacity(double(device.budgetBytes()))
                          << ": " << describe(use, problem.kvRows());
    if (target.gpuCount() == 0)
      return;
    module.emitRemark() << "searches for a placement: " << counts.searches
                        << "; steps simulated: " << counts.simulations
                        << "; memory checks: " << counts.memoryChecks;
    reportUnfit(module, target, problem, search);
    for (const moec::DeviceDesc &device : target.devices)
      if (device.sharesMemory)
        addNote(module,
                device.name + " and " + target.host().name +
                    " share one memory: one budget for both, weights stay "
                    "where they are, and what one reads delays the other, "
                    "which is computed, not measured");
    for (size_t gpu = 0; gpu < target.gpuCount(); ++gpu)
      if (std::string hot = hotExperts(int(gpu), choice); !hot.empty())
        addNote(module, target.devices[gpu].name + " has " + hot);
    for (size_t gpu = 0; gpu < target.gpuCount(); ++gpu)
      module.emitRemark() << target.devices[gpu].name << " has "
                          << contentsOf(int(gpu), problem, search, choice);
    if (!choice.paths.empty())
      module.emitRemark() << "seconds of a request with the parts of so many "
                             "layers on GPUs, experts undivided: "
                          << choice.paths;
    auto transfers = times.transfersPerToken(choice.assignment, choice.splits);
    module.emitRemark() << transfers.count << " copies between devices take "
                        << formatSeconds(transfers.seconds)
                        << " per decoded token";
    module.emitRemark() << "predicted " << textOf(choice.predicted, mix)
                        << "; with all on " << target.host().name << " "
                        << alternative(search.allOnHost(), plan, mix)
                        << "; with experts alone there "
                        << alternative(search.classicSplit(), plan, mix);
  }

  /// Reports the first part of the model that the GPU has no kernel for.
  static void reportUnfit(ModuleOp module, const moec::TargetDesc &target,
                          const PlacementProblem &problem,
                          const PlacementSearch &search) {
    for (auto [index, unit] : llvm::enumerate(search.units()))
      if (int unfit = search.unfitGroupOf(int(index), 0); unfit >= 0) {
        module.emitRemark()
            << target.devices.front().name << " has no kernel for "
            << problem.groups()[unfit].label << ", so " << target.host().name
            << " runs " << nameOf(unit.kind) << " of this kind";
        return;
      }
  }

  /// Describes another placement for comparison, and whether it would fit.
  static std::string alternative(const PlacementProblem::Assignment &assignment,
                                 const WholePlan &plan, const RequestMix &mix) {
    return textOf(plan.times.predict(assignment), mix) +
           (plan.search.fits(plan.problem.memoryUse(assignment))
                ? ""
                : " (which does not fit)");
  }

  static std::string textOf(const StepPrediction::Prediction &predicted,
                            const RequestMix &mix) {
    std::string text;
    if (predicted.decode > 0)
      text = formatSeconds(predicted.decode) + " a decoded token";
    if (predicted.prompt > 0)
      text += (text.empty() ? "" : ", ") + formatSeconds(predicted.prompt) +
              " " + describePrompts(mix);
    return text;
  }

  /// Returns "the 406 most used of 14848 experts of 58 layers, expected to
  /// receive 31 % of their choices", or "".
  static std::string hotExperts(int device, const Choice &choice) {
    int64_t here = 0, all = 0, layers = 0;
    double share = 0;
    for (const ExpertSplit &split : choice.splits) {
      if (split.device != device || areLeadingExperts(split.chosen))
        continue;
      here += split.count();
      all += split.experts;
      share += split.share;
      ++layers;
    }
    if (layers == 0)
      return "";
    return "the " + std::to_string(here) + " most used of " +
           std::to_string(all) + " experts of " + std::to_string(layers) +
           (layers == 1 ? " layer" : " layers") + ", expected to receive " +
           formatPercent(share / double(layers)) + " of their choices";
  }

  /// Returns a list such as "attention of 61 of 61 layers, experts of 2 of 58,
  /// head".
  static std::string contentsOf(int device, const PlacementProblem &problem,
                                const PlacementSearch &search,
                                const Choice &choice) {
    std::string text;
    for (auto kind : {PlacementUnit::Attention, PlacementUnit::Dense,
                      PlacementUnit::Experts, PlacementUnit::Head,
                      PlacementUnit::Embedding}) {
      int64_t here = 0, all = 0;
      for (auto [unit, where] :
           llvm::zip_equal(search.units(), choice.unitDevices))
        if (unit.kind == kind) {
          ++all;
          here += where == device;
        }
      if (here == 0)
        continue;
      text += (text.empty() ? "" : ", ") + nameOf(kind).str();
      if (kind < PlacementUnit::Head)
        text += " of " + std::to_string(here) + " of " +
                moert::counted(uint64_t(all), "layer");
    }
    if (std::string hot = hotExperts(device, choice); !hot.empty())
      text += (text.empty() ? "" : ", ") + hot;
    for (const ExpertSplit &split : choice.splits)
      if (split.device == device && areLeadingExperts(split.chosen))
        text += (text.empty() ? "" : ", ") + std::to_string(split.count()) +
                " of " + std::to_string(split.experts) + " experts of " +
                problem.groups()[split.group].label;
    return text.empty() ? "nothing beyond what rules ask for" : text;
  }
};

} // namespace
