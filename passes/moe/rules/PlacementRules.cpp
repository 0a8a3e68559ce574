#include "passes/moe/rules/PlacementRules.h"

#include "llvm/ADT/StringExtras.h"
#include "passes/moe/Support.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Text.h"

#include <set>

using namespace mlir;
using namespace mlir::moe;

bool PlacementRule::names(Operation *op) const {
  return labels.match(labelOf(op));
}

bool PlacementRule::covers(Operation *op) const {
  return names(op) && (phase.empty() || phaseOf(op).getName() == phase);
}

std::string PlacementRule::shown() const { return moert::clipped(text); }

namespace {

/// Returns a suggestion to append to the name of something unknown.
std::string didYouMean(StringRef name, ArrayRef<std::string> known) {
  std::optional<std::string> meant =
      moert::closestMatch(std::string_view(name), known);
  return meant ? ", did you mean \"" + *meant + "\"?" : "";
}

std::vector<std::string> deviceNames(const moec::TargetDesc &target) {
  std::vector<std::string> names;
  for (const moec::DeviceDesc &device : target.devices)
    names.push_back(device.name);
  llvm::sort(names);
  return names;
}

std::vector<std::string> phaseNames(ModuleOp module) {
  std::vector<std::string> names;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    names.push_back(phaseOf(function).getName().str());
  return names;
}

/// Returns "blk.*.part" for the parts of layers, then every label.
std::vector<std::string> labelsOf(ModuleOp module, StringRef phase) {
  std::set<std::string> parts, labels;
  module.walk([&](CostOpInterface op) {
    if (!phase.empty() && phaseOf(op).getName() != phase)
      return;
    labels.insert(labelOf(op));
    if (layerOf(op))
      parts.insert(
          "blk.*." +
          op->getAttrOfType<LabelAttr>(kLabelAttr).getPart().getValue().str());
  });
  std::vector<std::string> all(parts.begin(), parts.end());
  all.insert(all.end(), labels.begin(), labels.end());
  return all;
}

FailureOr<PlacementRule> parsePlacementRule(ModuleOp module,
                                            const moec::TargetDesc &target,
                                            StringRef text) {
  auto fail = [&](const Twine &cause, const Twine &fix) {
    return userError(module, "rule \"" + moert::clipped(text) + "\" " + cause,
                     fix);
  };
  auto [what, where] = text.rsplit('=');
  auto [device, number] = where.split(':');
  int64_t experts = 0;
  if (where.contains(':') && (number.getAsInteger(10, experts) || experts < 1))
    return fail("has \"" + moert::clipped(number) +
                    "\" for a number of experts",
                "write it as in \"blk.*.ffn_experts=gpu0:16\"");
  StringRef phase, pattern = what;
  if (auto [before, after] = what.split(':'); what.contains(':')) {
    phase = before;
    pattern = after;
    if (phase.empty())
      return fail("has nothing before its colon",
                  "write it as in \"prefill:blk.*=cpu0\"");
  }
  if (pattern.empty() || device.empty())
    return fail("names no " + Twine(pattern.empty() ? "op" : "device"),
                "write it as in \"blk.*.ffn_experts=cpu0\" or "
                "\"prefill:blk.*=cpu0\"");
  if (!target.find(std::string_view(device))) {
    std::vector<std::string> known = deviceNames(target);
    return fail("is for device " + moert::clipped(device) + ", which " +
                    target.name + " does not have" + didYouMean(device, known),
                "its devices are " + llvm::join(known, ", "));
  }
  if (std::vector<std::string> known = phaseNames(module);
      !phase.empty() && !llvm::is_contained(known, phase))
    return fail("is for phase " + moert::clipped(phase) +
                    ", which this plan does not have" +
                    didYouMean(phase, known),
                "its phases are " + llvm::join(known, ", "));
  auto labels = llvm::GlobPattern::create(pattern, /*MaxSubPatterns=*/1024);
  if (!labels)
    return fail("has a broken pattern (" + llvm::toString(labels.takeError()) +
                    ")",
                "patterns are as in a shell: *, ?, [0-9], {a,b}");
  return PlacementRule{text, phase, device, experts, std::move(*labels)};
}

} // namespace

FailureOr<SmallVector<PlacementRule>>
moe::parsePlacementRules(ModuleOp module, const moec::TargetDesc &target,
                         ArrayRef<std::string> texts) {
  SmallVector<PlacementRule> rules;
  for (const std::string &text : texts) {
    FailureOr<PlacementRule> rule = parsePlacementRule(module, target, text);
    if (failed(rule))
      return failure();
    rules.push_back(std::move(*rule));
  }
  return rules;
}

LogicalResult moe::matchesNothing(ModuleOp module, const PlacementRule &rule) {
  StringRef pattern = rule.text.rsplit('=').first;
  std::string elsewhere;
  if (!rule.phase.empty()) {
    pattern = pattern.split(':').second;
    module.walk([&](CostOpInterface op) {
      if (elsewhere.empty() && rule.names(op))
        elsewhere = phaseOf(op).getName().str();
    });
  }
  std::string cause = "rule \"" + rule.shown() + "\" matches no op";
  if (!elsewhere.empty())
    return userError(module,
                     cause + " of phase " + rule.phase +
                         ", though some of phase " + elsewhere,
                     "moec explain lists the ops of each phase");
  return userError(module,
                   cause + didYouMean(pattern, labelsOf(module, rule.phase)),
                   "moec explain lists the names of ops");
}
