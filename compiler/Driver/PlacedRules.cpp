#include "compiler/Driver/PlacedRules.h"

#include "dialects/moe/Moe.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/moe/Support.h"
#include "runtime/plan/OutputKind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

using namespace mlir;
using namespace mlir::moe;

namespace moec {

namespace {
/// The device of one op of the model in each phase.
struct Placed {
  std::optional<int64_t> layer;
  std::map<std::string, std::string> deviceOf;

  /// Returns the device if it is the same in all phases, else "".
  std::string device() const {
    for (const auto &[phase, device] : deviceOf)
      if (device != deviceOf.begin()->second)
        return "";
    return deviceOf.begin()->second;
  }
};

/// Returns the slice of a layer's experts that `op` computes; null if it is
/// none.
ExpertSliceAttr sliceOf(Operation *op) {
  auto experts = dyn_cast_or_null<ExpertsOp>(op);
  return experts ? experts.getSliceAttr() : ExpertSliceAttr();
}

/// Returns whether the slice has the experts that a rule with a number places:
/// the first ones, or with a map the ones whose matrices are all of its
/// weights.
bool isChosen(ExpertSliceAttr slice) {
  if (slice.getMap().empty())
    return slice.getBegin() == 0;
  return llvm::count_if(slice.getMap(), [](double number) {
           return number >= 0;
         }) == slice.getCount();
}

/// Returns whether an operand of `op` is the result of an op for which `like`
/// is true.
bool readsFrom(Operation *op, function_ref<bool(Operation *)> like) {
  return llvm::any_of(op->getOperands(), [&](Value value) {
    return value.getDefiningOp() && like(value.getDefiningOp());
  });
}

bool isDeferred(Operation *op) { return op->hasAttr(kDeferredAttr); }

/// Returns whether `op` selects, computes or adds deferred experts
/// (passes/moe/graph/DeferExperts.cpp). Such ops follow the device of the other
/// experts.
bool belongsToDeferral(Operation *op) {
  return isa<SplitChoicesOp>(op) || isDeferred(op) ||
         (isa<AddOp>(op) && readsFrom(op, isDeferred));
}

/// Returns whether `op` adds the results of slices of experts. Placement
/// chooses its device along with the slices.
bool addsSlices(Operation *op) {
  return isa<AddOp>(op) && readsFrom(op, [](Operation *summand) {
           // A deferred result may have been added to the slice first.
           if (belongsToDeferral(summand) && isa<AddOp>(summand))
             summand = summand->getOperand(0).getDefiningOp();
           return bool(sliceOf(summand));
         });
}

/// Returns the part of a label after its layer; for a slice, without the range
/// that sliceExperts() appended.
StringAttr partOf(Operation *op) {
  auto label = op->getAttrOfType<LabelAttr>(kLabelAttr);
  StringRef part = label.getPart().getValue();
  return StringAttr::get(op->getContext(),
                         sliceOf(op) ? part.rsplit('.').first : part);
}
} // namespace

std::string placedRules(ModuleOp module) {
  // Placed ops by part, then by layer (-1 for none). Rules for first slices
  // come last, because they leave the other experts to earlier rules.
  llvm::MapVector<StringAttr, std::map<int64_t, Placed>> parts, slices;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    function.walk([&](CostOpInterface op) {
      auto device = op->getAttrOfType<StringAttr>(kDeviceAttr);
      // Skips copies, ops that no rule can name, and ops that --stream-experts
      // placed.
      if (!device || isa<TransferOp>(op.getOperation()) ||
          op->hasAttr(kStreamedAttr) ||
          has(phaseOf(function).getKind(), moert::kStreams) ||
          !op->hasAttr(kLabelAttr) || addsSlices(op) || belongsToDeferral(op))
        return;
      std::optional<int64_t> layer = layerOf(op);
      ExpertSliceAttr slice = sliceOf(op);
      bool isFirst = slice && isChosen(slice);
      Placed &placed =
          (isFirst ? slices : parts)[partOf(op)][layer.value_or(-1)];
      placed.layer = layer;
      std::string &where = placed.deviceOf[phaseOf(op).getName().str()];
      where = device.str();
      if (isFirst)
        where += ":" + std::to_string(slice.getCount());
    });
  std::string text(moert::kRulesHeader);
  auto add = [&](StringAttr part, const std::map<int64_t, Placed> &layers) {
    // Some layers may have no slice of this part.
    size_t all = std::max(layers.size(), parts.lookup(part).size());
    // Layers of each device, for each phase ("" for all phases).
    std::map<std::string, std::map<std::string, std::vector<int64_t>>> rules;
    for (const auto &[layer, placed] : layers) {
      std::string device = placed.device();
      if (!device.empty())
        rules[""][device].push_back(layer);
      else
        for (const auto &[phase, where] : placed.deviceOf)
          rules[phase][where].push_back(layer);
    }
    for (const auto &[phase, devices] : rules)
      for (const auto &[device, numbers] : devices) {
        std::string which;
        if (numbers.front() < 0)
          which = "";
        else if (numbers.size() == all)
          which = "blk.*.";
        else if (numbers.size() == 1)
          which = fmt::format("blk.{}.", numbers.front());
        else
          which = fmt::format("blk.{{{}}}.", fmt::join(numbers, ","));
        text += fmt::format("{}{}{}{}={}\n", phase, phase.empty() ? "" : ":",
                            which, part.str(), device);
      }
  };
  for (const auto &[part, layers] : parts)
    add(part, layers);
  for (const auto &[part, layers] : slices)
    add(part, layers);
  return text;
}

moert::StatusOr<std::vector<std::string>>
readRules(const std::vector<std::string> &rules, moert::InputTexts &texts) {
  std::vector<std::string> all;
  for (const std::string &rule : rules) {
    if (!rule.starts_with('@')) {
      all.push_back(rule);
      continue;
    }
    constexpr uint64_t most = 1 << 20;
    MOE_ASSIGN_OR_RETURN(
        const std::string *text,
        texts.read("the placement rules", rule.substr(1), most));
    SmallVector<StringRef> lines;
    StringRef(*text).split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    for (StringRef line : lines)
      if (line = line.trim(); !line.empty() && line.front() != '#')
        all.push_back(line.str());
  }
  return all;
}

} // namespace moec
