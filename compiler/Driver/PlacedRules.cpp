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
/// Where an op of the model is, by phase.
struct Placed {
  std::optional<int64_t> layer;
  std::map<std::string, std::string> deviceOf;

  /// The same in all phases, or "".
  std::string device() const {
    for (const auto &[phase, device] : deviceOf)
      if (device != deviceOf.begin()->second)
        return "";
    return deviceOf.begin()->second;
  }
};

/// The slice of a layer's experts that `op` is; null: it is none.
ExpertSliceAttr sliceOf(Operation *op) {
  auto experts = dyn_cast_or_null<ExpertsOp>(op);
  return experts ? experts.getSliceAttr() : ExpertSliceAttr();
}

/// Whether it is of the experts that a rule with a number places: the first
/// ones, or with a map those that have all of their weights' matrices.
bool isChosen(ExpertSliceAttr slice) {
  if (slice.getMap().empty())
    return slice.getBegin() == 0;
  return llvm::count_if(slice.getMap(), [](double number) {
           return number >= 0;
         }) == slice.getCount();
}

/// Whether an operand of `op` comes of an op that is `like` this.
bool readsFrom(Operation *op, function_ref<bool(Operation *)> like) {
  return llvm::any_of(op->getOperands(), [&](Value value) {
    return value.getDefiningOp() && like(value.getDefiningOp());
  });
}

bool isLate(Operation *op) { return op->hasAttr(kDeferredAttr); }

/// Whether `op` chooses, computes or adds experts that are a layer late
/// (passes/moe/graph/DeferExperts.cpp), and goes where the others are.
bool isOfLate(Operation *op) {
  return isa<SplitChoicesOp>(op) || isLate(op) ||
         (isa<AddOp>(op) && readsFrom(op, isLate));
}

/// Whether `op` adds up what slices of the experts have made: it goes where it
/// is best for them.
bool addsSlices(Operation *op) {
  return isa<AddOp>(op) && readsFrom(op, [](Operation *summand) {
           // With what was late.
           if (isOfLate(summand) && isa<AddOp>(summand))
             summand = summand->getOperand(0).getDefiningOp();
           return bool(sliceOf(summand));
         });
}

/// The part of a label behind its layer, of a slice what it was before
/// (sliceExperts() appended the range).
StringAttr partOf(Operation *op) {
  auto label = op->getAttrOfType<LabelAttr>(kLabelAttr);
  StringRef part = label.getPart().getValue();
  return StringAttr::get(op->getContext(),
                         sliceOf(op) ? part.rsplit('.').first : part);
}
} // namespace

std::string placedRules(ModuleOp module) {
  // By part, then by layer; -1 outside of them.
  // First slices come last: their rules leave the rest to those before.
  llvm::MapVector<StringAttr, std::map<int64_t, Placed>> parts, slices;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    function.walk([&](CostOpInterface op) {
      auto device = op->getAttrOfType<StringAttr>(kDeviceAttr);
      // Copies, ops that no rule could name, and what is where --stream-experts
      // had it, not placement.
      if (!device || isa<TransferOp>(op.getOperation()) ||
          op->hasAttr(kStreamedAttr) || function.getName() == kStreamedName ||
          !op->hasAttr(kLabelAttr) || addsSlices(op) || isOfLate(op))
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
    // Of a part some layers may have no slice.
    size_t all = std::max(layers.size(), parts.lookup(part).size());
    // Of each phase, or "" for all: layers by device.
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
