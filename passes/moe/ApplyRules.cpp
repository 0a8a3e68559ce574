#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/DenseMap.h"
#include "passes/moe/Passes.h"
#include "passes/moe/PlacementRules.h"
#include "passes/moe/Support.h"

namespace mlir::moe {
#define GEN_PASS_DEF_APPLYRULESPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

/// The layer whose cache `op` appends to or reads.
std::optional<int64_t> cacheOf(Operation *op) {
  auto layer = [](Value value) -> std::optional<int64_t> {
    if (auto cache = value.getDefiningOp<CacheOpInterface>())
      if (isa<KvType>(value.getType()))
        return cache.getCacheLayer();
    return std::nullopt;
  };
  for (Value value : op->getResults())
    if (auto found = layer(value))
      return found;
  for (Value value : op->getOperands())
    if (auto found = layer(value))
      return found;
  return std::nullopt;
}

struct ApplyRules : moe::impl::ApplyRulesPassBase<ApplyRules> {
  using ApplyRulesPassBase::ApplyRulesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    if (failed(target))
      return signalPassFailure();
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!phaseOf(function)) {
        function.emitError() << "@" << function.getName() << " has no "
                             << kPhaseAttr << "; run moe-specialize-phases "
                             << "first";
        return signalPassFailure();
      }
    std::vector<std::string> texts(rules.begin(), rules.end());
    auto parsed = parsePlacementRules(module, *target, texts);
    if (failed(parsed))
      return signalPassFailure();
    noteCaches(module, *parsed);
    if (failed(checkUse(module, *parsed)))
      return signalPassFailure();
    module.walk([&](CostOpInterface op) { place(op, *parsed); });
  }

private:
  /// The rule that decides about each layer's cache.
  llvm::DenseMap<int64_t, size_t> ruleOfCache;

  /// A cache is one for all phases, so that only rules for all of them decide
  /// where it is: the last that covers an op that uses it.
  void noteCaches(ModuleOp module, ArrayRef<PlacementRule> parsed) {
    ruleOfCache.clear();
    module.walk([&](CostOpInterface op) {
      std::optional<int64_t> layer = cacheOf(op);
      if (!layer)
        return;
      for (auto [index, rule] : llvm::enumerate(parsed))
        if (rule.phase.empty() && rule.covers(op)) {
          size_t &last = ruleOfCache.try_emplace(*layer, index).first->second;
          last = std::max(last, index);
        }
    });
  }

  /// Whether each rule covers an op that it may place.
  LogicalResult checkUse(ModuleOp module, ArrayRef<PlacementRule> parsed) {
    for (const PlacementRule &rule : parsed) {
      bool matches = false, places = false;
      module.walk([&](CostOpInterface op) {
        if (!rule.covers(op))
          return;
        matches = true;
        places |= rule.phase.empty() || !cacheOf(op);
      });
      if (!matches)
        return matchesNothing(module, rule);
      if (!places)
        return userError(module,
                         "rule \"" + rule.text +
                             "\" matches only ops that use the KV cache, which "
                             "all phases share",
                         "leave out \"" + rule.phase +
                             ":\" to move them in all phases");
    }
    return success();
  }

  void place(Operation *op, ArrayRef<PlacementRule> parsed) {
    const PlacementRule *last = nullptr;
    for (const PlacementRule &rule : parsed)
      if (rule.covers(op))
        last = &rule;
    std::optional<int64_t> layer = cacheOf(op);
    if (!layer)
      return last ? set(op, *last, "") : void();
    if (auto found = ruleOfCache.find(*layer); found != ruleOfCache.end())
      set(op, parsed[found->second], " of its layer's cache");
    else if (last)
      appendReason(op, "With its layer's cache, which all phases share: the "
                       "rule '" +
                           last->text + "' does not move it.");
  }

  void set(Operation *op, const PlacementRule &rule, StringRef ofWhat) {
    op->setAttr(kDeviceAttr, StringAttr::get(&getContext(), rule.device));
    appendReason(op, "On " + rule.device + ": the rule '" + rule.text +
                         "' asks for it" + ofWhat + ".");
    ++numPlaced;
  }
};

} // namespace
