#include "compiler/Driver/PlacedRules.h"

#include "dialects/moe/Moe.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/moe/Support.h"
#include "runtime/base/ReadInput.h"

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

/// The part of a label behind its layer.
std::string partOf(Operation *op) {
  auto label = op->getAttrOfType<LabelAttr>(kLabelAttr);
  return label ? label.getPart().getValue().str() : labelOf(op);
}
} // namespace

std::string placedRules(ModuleOp module) {
  // By part, then by layer; -1 outside of them.
  llvm::MapVector<StringAttr, std::map<int64_t, Placed>> parts;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    function.walk([&](CostOpInterface op) {
      auto device = op->getAttrOfType<StringAttr>(kDeviceAttr);
      // Copies, and ops that no rule could name.
      if (!device || isa<TransferOp>(op.getOperation()) ||
          !op->hasAttr(kLabelAttr))
        return;
      std::optional<int64_t> layer = layerOf(op);
      Placed &placed = parts[StringAttr::get(op->getContext(), partOf(op))]
                            [layer.value_or(-1)];
      placed.layer = layer;
      placed.deviceOf[phaseOf(op).getName().str()] = device.str();
    });
  std::string text;
  for (auto &[part, layers] : parts) {
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
        else if (numbers.size() == layers.size())
          which = "blk.*.";
        else if (numbers.size() == 1)
          which = fmt::format("blk.{}.", numbers.front());
        else
          which = fmt::format("blk.{{{}}}.", fmt::join(numbers, ","));
        text += fmt::format("{}{}{}{}={}\n", phase, phase.empty() ? "" : ":",
                            which, part.str(), device);
      }
  }
  return text;
}

moert::StatusOr<std::vector<std::string>>
readRules(const std::vector<std::string> &rules) {
  std::vector<std::string> all;
  for (const std::string &rule : rules) {
    if (!rule.starts_with('@')) {
      all.push_back(rule);
      continue;
    }
    constexpr uint64_t most = 1 << 20;
    MOE_ASSIGN_OR_RETURN(std::string text,
                         moert::readInput(rule.substr(1), most));
    SmallVector<StringRef> lines;
    StringRef(text).split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    for (StringRef line : lines)
      if (line = line.trim(); !line.empty() && line.front() != '#')
        all.push_back(line.str());
  }
  return all;
}

} // namespace moec
