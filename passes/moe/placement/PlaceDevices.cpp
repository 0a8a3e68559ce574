#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/Support/Format.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/SliceExperts.h"
#include "passes/moe/kernels/AlternativeSeconds.h"
#include "passes/moe/placement/ExpertStreaming.h"
#include "passes/moe/placement/PlacementReasons.h"
#include "passes/moe/placement/SearchCounts.h"
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
         " of scratch and staging";
}

struct PlaceDevices : moe::impl::PlaceDevicesPassBase<PlaceDevices> {
  using PlaceDevicesPassBase::PlaceDevicesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    if (failed(target) || failed(checkPhases(module)) ||
        failed(checkPlaced(module, *target)))
      return signalPassFailure();

    PlacementProblem problem(module, *target);
    StepPrediction times(problem, *target, mixOf(), mayPack());
    PlacementSearch search(problem, *target, times);
    Choice choice = search.run();
    int64_t searches = 1;
    if (failed(checkFit(module, *target, problem, choice)))
      return signalPassFailure();
    moec::TargetDesc reducedTarget = *target;
    std::optional<PlacementSearch> beside;
    double seconds = choice.predicted.request;
    if (leaveSlots(module, reducedTarget)) {
      seconds = streamedSeconds(module, *target, problem, choice);
      Choice other;
      // How much the activations grow is only known for a given choice.
      constexpr int kTries = 5;
      for (int i = 0; i < kTries; ++i) {
        beside.emplace(problem, reducedTarget, times);
        other = beside->run();
        ++searches;
        if (!other.fits ||
            !leaveMore(module, *target, problem, other, reducedTarget))
          break;
      }
      double others = streamedSeconds(module, *target, problem, other);
      if (other.fits && others < seconds) {
        choice = std::move(other);
        seconds = others;
      } else {
        beside.reset();
      }
    }
    SearchCounts(searches, problem, times).addTo(module);
    recordPredicted(module, choice);
    module->setAttr(kRequestSecondsAttr,
                    Builder(module).getF64FloatAttr(seconds));
    const PlacementSearch &used = beside ? *beside : search;
    record(problem, beside ? reducedTarget : *target, times, used, choice);
    report(module, *target, problem, times, used, choice);
    WeightTable weights(module);
    for (const ExpertSplit &split : choice.splits)
      divide(problem, *target, split, choice, weights);
  }

private:
  bool mayPack() const { return weights != WeightsMode::Reference; }

  RequestMix mixOf() const {
    return requestMix(optimizeFor, typicalPrompt, deferExperts);
  }

  /// Records the seconds of steps that the plan adds up too: typical ones.
  void recordPredicted(ModuleOp module, const Choice &choice) const {
    Builder builder(module);
    SmallVector<NamedAttribute> predicted;
    for (func::FuncOp function : module.getOps<func::FuncOp>()) {
      PhaseAttr phase = phaseOf(function);
      double seconds = 0;
      if (phase.getKind() == PhaseKind::Decode && phase.getMaxTokens() == 1)
        seconds = choice.predicted.decode;
      if (phase.getKind() == PhaseKind::Prefill &&
          promptSteps(mixOf().prompt, phase).tokens == phase.getMaxTokens())
        seconds = choice.predicted.prefill;
      if (seconds > 0)
        predicted.push_back(builder.getNamedAttr(
            phase.getName().getValue(), builder.getF64FloatAttr(seconds)));
    }
    module->setAttr(kPredictedAttr, builder.getDictionaryAttr(predicted));
  }

  /// Reserves the bytes that streamed experts need on each GPU. Returns whether
  /// there are any.
  bool leaveSlots(ModuleOp module, moec::TargetDesc &target) const {
    func::FuncOp prefill = findPhase(module, PhaseKind::Prefill);
    if (streamExperts == 0 || !prefill)
      return false;
    bool any = false;
    for (moec::DeviceDesc &device : target.devices) {
      if (device.kind != moec::DeviceKind::Cuda)
        continue;
      int64_t bytes =
          ExpertStreaming::mostBytes(prefill, target.host(), device);
      device.reservedBytes += uint64_t(bytes);
      any |= bytes > 0;
    }
    return any;
  }

  ExpertStreaming streamingOf(ModuleOp module, const moec::TargetDesc &target,
                              const PlacementProblem &problem,
                              const Choice &choice) const {
    return ExpertStreaming(
        findPhase(module, PhaseKind::Prefill),
        [&](Operation *op) -> const moec::DeviceDesc * {
          int group = problem.groupOf(op);
          bool isHot =
              llvm::any_of(choice.splits, [&](const ExpertSplit &split) {
                return split.group == group && !areLeadingExperts(split.chosen);
              });
          return group < 0 || isHot ? nullptr
                                    : &target.devices[choice.assignment[group]];
        },
        weights != WeightsMode::Reference);
  }

  /// Returns the bytes that each device lacks if the choice's experts are
  /// streamed: for the slots, the biases and scales, and the activations of the
  /// ops that move to the GPU.
  static std::vector<int64_t> lacking(const moec::TargetDesc &target,
                                      const PlacementProblem &problem,
                                      const Choice &choice,
                                      const ExpertStreaming &streaming) {
    std::vector<int64_t> kept(target.devices.size()), slots(kept), lack(kept);
    auto there = choice.assignment;
    for (const ExpertStreaming::Candidate &c : streaming.all()) {
      auto gpu = size_t(c.gpu - target.devices.data());
      kept[gpu] += ExpertStreaming::keptBytes(c.op);
      slots[gpu] = std::max(slots[gpu], ExpertStreaming::slotBytes(c.op));
      there[problem.groupOf(c.op)] = int(gpu);
    }
    std::vector<DeviceUse> streamed = problem.memoryUse(there, choice.splits);
    for (size_t i = 0; i < lack.size(); ++i) {
      if (slots[i] == 0)
        continue;
      DeviceUse use = choice.use[i];
      use.activations = std::max(use.activations, streamed[i].activations);
      use.staging = std::max(use.staging, streamed[i].staging);
      lack[i] =
          std::max<int64_t>(0, use.total() + kept[i] + slots[i] -
                                   int64_t(target.devices[i].budgetBytes()));
    }
    return lack;
  }

  /// Shrinks each device's budget in `reducedTarget` to what the choice uses
  /// minus what it lacks. Returns false if nothing is lacking.
  bool leaveMore(ModuleOp module, const moec::TargetDesc &target,
                 const PlacementProblem &problem, const Choice &choice,
                 moec::TargetDesc &reducedTarget) const {
    std::vector<int64_t> lack = lacking(
        target, problem, choice, streamingOf(module, target, problem, choice));
    for (auto [device, use, bytes] :
         llvm::zip_equal(reducedTarget.devices, choice.use, lack))
      if (bytes > 0)
        device.reservedBytes +=
            uint64_t(int64_t(device.budgetBytes()) - use.total() + bytes);
    return llvm::any_of(lack, [](int64_t bytes) { return bytes > 0; });
  }

  /// Returns the predicted seconds of the request, with experts streamed in the
  /// steps that are long enough. If streaming is requested, whatever it costs,
  /// its cost is no reason to place ops so that it cannot be done: a loss is
  /// left out, and the result is infinity if no experts on the CPU can be
  /// streamed or a GPU has no room for the slots.
  double streamedSeconds(ModuleOp module, const moec::TargetDesc &target,
                         const PlacementProblem &problem,
                         const Choice &choice) const {
    constexpr double never = std::numeric_limits<double>::infinity();
    const bool isAsked = streamExperts > 0;
    ExpertStreaming streaming = streamingOf(module, target, problem, choice);
    for (int64_t bytes : lacking(target, problem, choice, streaming))
      if (bytes > 0)
        return isAsked ? never : choice.predicted.request;
    if (isAsked && streaming.empty() && !streaming.obstacle().empty())
      return never;
    func::FuncOp prefill = findPhase(module, PhaseKind::Prefill);
    PromptSteps steps = promptSteps(mixOf().prompt, phaseOf(prefill));
    if (streaming.empty() || steps.tokens < streamExperts)
      return choice.predicted.request;
    ExpertStreaming::Seconds seconds = streaming.secondsOf(steps.tokens);
    double saved = std::max(0., seconds.host - seconds.streamed);
    return choice.predicted.request - steps.count * saved;
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
      const moec::DeviceDesc &device = target.devices[choice.assignment[index]];
      std::string reason = group.device < 0 ? reasons.of(int(index)) : "";
      std::map<int, std::string> rejected = reasons.against(int(index));
      for (Operation *op : group.ops) {
        op->setAttr(kDeviceAttr,
                    StringAttr::get(op->getContext(), device.name));
        if (group.device < 0)
          appendReason(op, reason);
        for (const auto &[other, why] : rejected)
          seconds.rejectDevice(op, target.devices[other], device, why);
        (device.kind == moec::DeviceKind::Cuda ? numGpu : numHost) += 1;
      }
    }
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

  void report(ModuleOp module, const moec::TargetDesc &target,
              const PlacementProblem &problem, const StepPrediction &times,
              const PlacementSearch &search, const Choice &choice) {
    for (auto [device, use] : llvm::zip_equal(target.devices, choice.use))
      module.emitRemark() << device.name << ": "
                          << formatCapacity(double(use.total())) << " of "
                          << formatCapacity(double(device.budgetBytes()))
                          << ": " << describe(use, problem.kvRows());
    if (target.gpuCount() == 0)
      return;
    reportCounts(module);
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
    module.emitRemark() << "predicted " << textOf(choice.predicted)
                        << "; with all on " << target.host().name << " "
                        << alternative(search.allOnHost(), problem, times,
                                       search)
                        << "; with experts alone there "
                        << alternative(search.classicSplit(), problem, times,
                                       search);
  }

  static void reportCounts(ModuleOp module) {
    SearchCounts counts(module);
    module.emitRemark() << "searches for a placement: " << counts.searches
                        << "; steps simulated: " << counts.simulations
                        << "; memory checks: " << counts.memoryChecks;
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
  std::string alternative(const PlacementProblem::Assignment &assignment,
                          const PlacementProblem &problem,
                          const StepPrediction &times,
                          const PlacementSearch &search) const {
    return textOf(times.predict(assignment)) +
           (search.fits(problem.memoryUse(assignment))
                ? ""
                : " (which does not fit)");
  }

  std::string textOf(const StepPrediction::Prediction &predicted) const {
    std::string text;
    if (predicted.decode > 0)
      text = formatSeconds(predicted.decode) + " a decoded token";
    if (predicted.prompt > 0)
      text += (text.empty() ? "" : ", ") + formatSeconds(predicted.prompt) +
              " a prompt of " +
              moert::counted(uint64_t(typicalPrompt), "token");
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
