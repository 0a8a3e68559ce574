#include "kernels/Registry.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/rules/KvTypeRules.h"

namespace mlir::moe {
#define GEN_PASS_DEF_CHOOSEKVTYPESPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

StringRef nameOf(moek::KvType type) {
  std::string_view name = moek::kvTypeName(type);
  return {name.data(), name.size()};
}

/// compiler/README.md lists the measurements and their models.
constexpr StringLiteral kDefaultReason =
    "KV cache in f16: q8_0 (--kv-type q8_0) takes about half the memory, and "
    "the logits of plans with it were 1.4 to 2 times as far from the "
    "model's.";

struct ChooseKvTypes : moe::impl::ChooseKvTypesPassBase<ChooseKvTypes> {
  using ChooseKvTypesPassBase::ChooseKvTypesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<KvTypeRules> rules =
        KvTypeRules::parse(kvType, [&](const Twine &cause, const Twine &fix) {
          (void)userError(module, cause, fix);
        });
    if (failed(rules))
      return signalPassFailure();
    // Maps each layer's cache to the ops that append to it, one per phase.
    llvm::MapVector<std::pair<int64_t, int64_t>,
                    SmallVector<CacheOpInterface, 4>>
        caches;
    llvm::SetVector<int64_t> layers;
    module.walk([&](CacheOpInterface op) {
      if (op.isExact())
        return;
      caches[{op.getCacheLayer(), op.getCachePart()}].push_back(op);
      layers.insert(op.getCacheLayer());
    });
    for (const KvTypeRule &rule : rules->named())
      if (llvm::none_of(layers, [&](int64_t layer) {
            return rule.layers->first <= layer && layer <= rule.layers->second;
          }))
        return namesNoLayer(module, rule, int64_t(layers.size()));
    for (auto &[cache, ops] : caches)
      decide(rules->of(cache.first), ops);
  }

private:
  void namesNoLayer(ModuleOp module, const KvTypeRule &rule, int64_t layers) {
    (void)userError(module,
                    "kv-type \"" + rule.text + "\" names no layer with a cache",
                    "the model has " + Twine(layers) + " of them, from blk.0");
    signalPassFailure();
  }

  void decide(const KvTypeRule &rule, ArrayRef<CacheOpInterface> ops) {
    ++numCaches;
    moek::KvType type = rule.type.value_or(moek::KvType::F16);
    std::string reason =
        rule.type ? ("KV cache in " + nameOf(type) + " as requested.").str()
                  : kDefaultReason.str();
    for (CacheOpInterface op : ops) {
      Value cache = op.getCache();
      cache.setType(cast<KvType>(cache.getType()).of(type));
      appendReason(op, reason);
    }
    CacheOpInterface first = ops.front();
    first.emitRemark() << labelOf(first) << ": " << reason;
  }
};

} // namespace
