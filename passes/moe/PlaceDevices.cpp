#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Format.h"
#include "passes/moe/OpSeconds.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Placement.h"
#include "passes/moe/Support.h"

namespace mlir::moe {
#define GEN_PASS_DEF_PLACEDEVICESPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

using Assignment = PlacementProblem::Assignment;

/// What the search for an assignment found.
struct Choice {
  Assignment assignment;
  std::vector<DeviceUse> use;
  int64_t layersOnGpu = 0;
  /// Of a decoded token, against all ops on the host; copies not counted.
  double savedSeconds = 0;
};

/// Which groups go to GPUs: as many layers as fit, in whole layers from the
/// first. Groups that have a device stay there.
class Placer {
public:
  Placer(const PlacementProblem &problem, const moec::TargetDesc &target,
         double minReadFraction)
      : problem(problem), target(target), minReadFraction(minReadFraction),
        host(int(target.devices.size()) - 1), gpus(int(gpuCount(target))) {
    for (const OpGroup &group : problem.groups())
      if (gpus > 0 && group.layer && mayGoToGpu(group) &&
          problem.decodeSeconds(group, target.devices.front()) >= kNeverSeconds)
        unfit.insert({*group.layer, &group});
    for (const OpGroup &group : problem.groups())
      if (group.layer && paysOnGpu(group) && !unfitOf(group))
        layers.insert(*group.layer);
  }

  /// What of a group's layer GPUs have no kernel for, which keeps all of it off
  /// them; null if they have all.
  const OpGroup *unfitOf(const OpGroup &group) const {
    return group.layer ? unfit.lookup(*group.layer) : nullptr;
  }
  /// The first such group of the model.
  const OpGroup *firstUnfit() const {
    return unfit.empty() ? nullptr : unfit.front().second;
  }

  /// Whether the group may go there, and a token reads enough of its resident
  /// bytes.
  bool paysOnGpu(const OpGroup &group) const {
    return group.device < 0 && group.weightBytes > 0 &&
           group.readFraction >= minReadFraction;
  }
  /// Whether it goes where its layer does.
  bool mayGoToGpu(const OpGroup &group) const {
    return group.device < 0 && (group.weightBytes == 0 || paysOnGpu(group));
  }
  int64_t layerCount() const { return int64_t(layers.size()); }

  /// The choice that fits and saves the most time per decoded token.
  Choice choose() const {
    Choice best = evaluate(0, false);
    if (gpus == 0)
      return best;
    for (bool globals : {true, false})
      for (int64_t count = layerCount(); count >= 0; --count) {
        Choice choice = evaluate(count, globals);
        if (!gpusFit(choice.use))
          continue;
        if (choice.savedSeconds > best.savedSeconds)
          best = std::move(choice);
        break;
      }
    return best;
  }

private:
  Choice evaluate(int64_t count, bool globals) const {
    Choice choice;
    choice.assignment = assign(count, globals);
    choice.use = problem.memoryUse(choice.assignment);
    choice.layersOnGpu = count;
    for (auto [group, device] :
         llvm::zip_equal(problem.groups(), choice.assignment))
      choice.savedSeconds +=
          problem.decodeSeconds(group, target.host()) -
          problem.decodeSeconds(group, target.devices[device]);
    return choice;
  }

  bool gpusFit(ArrayRef<DeviceUse> use) const {
    for (auto [device, needed] : llvm::zip_equal(target.devices, use))
      if (device.kind == moec::DeviceKind::Cuda &&
          uint64_t(needed.total()) > device.budgetBytes())
        return false;
    return true;
  }

  /// The first `count` layers to GPUs, each GPU a run of them whose share of
  /// the bytes is the GPU's share of the memory; what belongs to no layer
  /// follows the last.
  Assignment assign(int64_t count, bool globals) const {
    llvm::SmallDenseMap<int64_t, int64_t> layerBytes;
    int64_t globalBytes = 0;
    for (const OpGroup &group : problem.groups())
      if (paysOnGpu(group) || (group.device < 0 && group.kvBytes))
        (group.layer ? layerBytes[*group.layer] : globalBytes) +=
            group.weightBytes + group.kvBytes;

    double total = globals ? double(globalBytes) : 0;
    for (int64_t layer : ArrayRef(layers.getArrayRef()).take_front(count))
      total += double(layerBytes[layer]);
    double memory = 0;
    for (int gpu = 0; gpu < gpus; ++gpu)
      memory += double(target.devices[gpu].budgetBytes());

    llvm::SmallDenseMap<int64_t, int> gpuOfLayer;
    double before = 0;
    double share =
        memory > 0 ? double(target.devices[0].budgetBytes()) / memory : 0;
    int gpu = 0;
    for (int64_t layer : ArrayRef(layers.getArrayRef()).take_front(count)) {
      double bytes = double(layerBytes[layer]);
      while (gpu + 1 < gpus && before + bytes / 2 > share * total)
        share += double(target.devices[++gpu].budgetBytes()) / memory;
      gpuOfLayer[layer] = gpu;
      before += bytes;
    }
    Assignment assignment(problem.groups().size(), host);
    for (auto [group, device] : llvm::zip_equal(problem.groups(), assignment)) {
      if (group.device >= 0) {
        device = group.device;
        continue;
      }
      if (group.weightBytes > 0 && !paysOnGpu(group))
        continue;
      if (group.layer) {
        auto it = gpuOfLayer.find(*group.layer);
        device = it == gpuOfLayer.end() ? host : it->second;
      } else if (group.weightBytes > 0 && globals) {
        device = gpus - 1;
      }
    }
    follow(assignment);
    return assignment;
  }

  /// Ops that have neither weights nor a layer go where their input is.
  void follow(Assignment &assignment) const {
    for (auto [group, device] : llvm::zip_equal(problem.groups(), assignment)) {
      if (group.device >= 0 || group.layer || group.weightBytes > 0)
        continue;
      for (Value operand : group.ops.front()->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (int source = problem.groupOf(producer);
              source >= 0 && assignment[source] != host) {
            device = assignment[source];
            break;
          }
    }
  }

  const PlacementProblem &problem;
  const moec::TargetDesc &target;
  double minReadFraction;
  int host, gpus;
  llvm::SetVector<int64_t> layers;
  llvm::MapVector<int64_t, const OpGroup *> unfit; ///< By layer.
};

std::string twoDecimals(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2f", value);
  return text;
}

/// Why a group is on its device, with the numbers.
class Reasons {
public:
  Reasons(const PlacementProblem &problem, const moec::TargetDesc &target,
          const Placer &placer, const Choice &choice)
      : problem(problem), target(target), placer(placer), choice(choice) {}

  std::string of(const OpGroup &group, const moec::DeviceDesc &device) const {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "On " << device.name << ": ";
    if (group.weightBytes == 0) {
      os << "no weights, so it runs where its layer's values are ("
         << seconds(group, device) << " a token).";
      return text;
    }
    std::string reads =
        "a token reads " +
        (group.readFraction < 1 ? formatPercent(group.readFraction) : "all") +
        " of its " + formatCapacity(double(group.weightBytes)) + " (" +
        twoDecimals(group.intensity()) + " FLOPs per resident byte and token)";
    if (gpuCount(target) == 0) {
      os << (target.devices.size() == 1
                 ? "the target's only device; "
                 : "the host, as no rule says otherwise; ")
         << reads << ".";
      return text;
    }
    const moec::DeviceDesc &other = device.kind == moec::DeviceKind::Cuda
                                        ? target.host()
                                        : target.devices.front();
    if (device.kind == moec::DeviceKind::Cuda)
      os << reads << ", " << seconds(group, device) << " there instead of "
         << seconds(group, other) << " on " << other.name << ".";
    else if (!placer.paysOnGpu(group))
      os << reads << ", and VRAM is kept for what every token reads in full.";
    else if (const OpGroup *unfit = placer.unfitOf(group))
      os << other.name << " has no kernel for " << unfit->label
         << ", and a layer stays together.";
    else
      os << "the VRAM of " << target.name << " holds " << choice.layersOnGpu
         << " of " << placer.layerCount() << " layers with the cache of "
         << problem.kvRows() << " positions, and not this; "
         << seconds(group, device) << " a token here instead of "
         << seconds(group, other) << " on " << other.name << ".";
    return text;
  }

private:
  std::string seconds(const OpGroup &group,
                      const moec::DeviceDesc &device) const {
    return formatSeconds(problem.decodeSeconds(group, device));
  }

  const PlacementProblem &problem;
  const moec::TargetDesc &target;
  const Placer &placer;
  const Choice &choice;
};

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
    Placer placer(problem, *target, minReadFraction);
    Choice choice = placer.choose();
    if (failed(checkFit(module, *target, problem, choice)))
      return signalPassFailure();
    record(problem, *target, placer, choice);
    report(module, *target, problem, placer, choice);
  }

private:
  LogicalResult checkPhases(ModuleOp module) {
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!phaseOf(function))
        return function.emitError()
               << "@" << function.getName() << " has no " << kPhaseAttr
               << "; run moe-specialize-phases first";
    return success();
  }

  /// Whether the devices that ops have already are the target's.
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
    // One line for each device, those that are short first.
    std::string shortOf, others;
    for (auto [device, use] : llvm::zip_equal(target.devices, choice.use)) {
      bool fits = use.total() <= int64_t(device.budgetBytes());
      (fits ? others : shortOf) += line(device, use, problem.kvRows());
    }
    if (shortOf.empty())
      return success();
    std::string fix = "use a target with more memory, or a model file with "
                      "fewer bits per weight";
    if (target.devices.size() > gpuCount(target) + 1 ||
        llvm::any_of(problem.groups(),
                     [](const OpGroup &group) { return group.device >= 0; }))
      fix = "place other ops on other devices, " + fix;
    return userError(module,
                     "the model does not fit " + target.name + shortOf + others,
                     fix);
  }

  /// Need, budget and what the need is made of.
  static std::string line(const moec::DeviceDesc &device, const DeviceUse &use,
                          int64_t kvRows) {
    std::string text = "\n  " + device.name + ": " +
                       formatCapacity(double(use.total())) + " of " +
                       formatCapacity(double(device.budgetBytes())) + " (" +
                       describe(use, kvRows);
    if (device.reservedBytes)
      text += "; " + formatCapacity(double(device.reservedBytes)) +
              " are left to the system";
    return text + ")";
  }

  void record(const PlacementProblem &problem, const moec::TargetDesc &target,
              const Placer &placer, const Choice &choice) {
    Reasons reasons(problem, target, placer, choice);
    for (auto [group, index] :
         llvm::zip_equal(problem.groups(), choice.assignment)) {
      const moec::DeviceDesc &device = target.devices[index];
      std::string reason = reasons.of(group, device);
      for (Operation *op : group.ops) {
        op->setAttr(kDeviceAttr,
                    StringAttr::get(op->getContext(), device.name));
        if (group.device < 0)
          appendReason(op, reason);
        (device.kind == moec::DeviceKind::Cuda ? numGpu : numHost) += 1;
      }
    }
  }

  void report(ModuleOp module, const moec::TargetDesc &target,
              const PlacementProblem &problem, const Placer &placer,
              const Choice &choice) {
    for (auto [device, use] : llvm::zip_equal(target.devices, choice.use))
      module.emitRemark() << device.name << ": "
                          << formatCapacity(double(use.total())) << " of "
                          << formatCapacity(double(device.budgetBytes()))
                          << ": " << describe(use, problem.kvRows());
    if (gpuCount(target) == 0)
      return;
    if (const OpGroup *unfit = placer.firstUnfit())
      module.emitRemark() << target.devices.front().name
                          << " has no kernel for " << unfit->label
                          << ": layers with such stay on "
                          << target.host().name;
    if (choice.layersOnGpu < placer.layerCount())
      module.emitRemark() << "only " << choice.layersOnGpu << " of "
                          << placer.layerCount() << " layers fit the VRAM of "
                          << target.name;
    auto transfers = problem.transfersPerToken(choice.assignment);
    InFlightDiagnostic remark =
        module.emitRemark()
        << "per decoded token the GPUs save "
        << formatSeconds(choice.savedSeconds) << ", and " << transfers.count
        << " copies between devices take " << formatSeconds(transfers.seconds);
    if (transfers.seconds > choice.savedSeconds)
      remark << ": generation would be faster on " << target.host().name
             << " alone";
  }
};

} // namespace
