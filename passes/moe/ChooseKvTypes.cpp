#include "compiler/Machine/Targets/TargetAttr.h"
#include "kernels/Registry.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "passes/moe/KvTypeRules.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Placement.h"
#include "passes/moe/Support.h"

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

/// Whether a weight's elements are codes of at most 8 bits.
bool hasByteCodes(Value weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  std::optional<moek::Format> format = getFormat(type.getElementType());
  return format && moek::formatInfo(*format).blockElements > 1;
}

bool isMatrix(Value value) {
  return isWeight(value) &&
         cast<RankedTensorType>(value.getType()).getRank() > 1;
}

/// The matrices that the rows which `op` appends were multiplied with, norms
/// and RoPE aside.
SmallVector<Value> projections(Operation *op) {
  SmallVector<Value> found;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (auto linear = dyn_cast_or_null<LinearOp>(producer))
      found.push_back(linear.getWeight());
    else if (isa_and_nonnull<RopeOp, RmsNormOp, LayerNormOp, CompressOp>(
                 producer))
      llvm::append_range(found, projections(producer));
  }
  return found;
}

struct ChooseKvTypes : moe::impl::ChooseKvTypesPassBase<ChooseKvTypes> {
  using ChooseKvTypesPassBase::ChooseKvTypesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    FailureOr<KvTypeRules> rules =
        KvTypeRules::parse(kvType, [&](const Twine &cause, const Twine &fix) {
          (void)userError(module, cause, fix);
        });
    if (failed(target) || failed(rules))
      return signalPassFailure();
    // Of each cache of a layer, what appends to it in each phase.
    llvm::MapVector<std::pair<int64_t, int64_t>,
                    SmallVector<CacheOpInterface, 4>>
        caches;
    llvm::SetVector<int64_t> layers;
    module.walk([&](CacheOpInterface op) {
      caches[{op.getCacheLayer(), op.getCachePart()}].push_back(op);
      layers.insert(op.getCacheLayer());
    });
    for (const KvTypeRule &rule : rules->named())
      if (llvm::none_of(layers, [&](int64_t layer) {
            return rule.layers->first <= layer && layer <= rule.layers->second;
          }))
        return namesNoLayer(module, rule, int64_t(layers.size()));
    for (auto &[cache, ops] : caches)
      decide(rules->of(cache.first), ops, *target);
  }

private:
  void namesNoLayer(ModuleOp module, const KvTypeRule &rule, int64_t layers) {
    (void)userError(
        module, "kv-type \"" + rule.text + "\" is for no layer with a cache",
        "the model has " + Twine(layers) + " of them, from blk.0");
    signalPassFailure();
  }

  void decide(const KvTypeRule &rule, ArrayRef<CacheOpInterface> ops,
              const moec::TargetDesc &target) {
    ++numCaches;
    std::string reason;
    moek::KvType type;
    if (rule.type) {
      type = *rule.type;
      reason = ("KV cache in " + nameOf(type) + " as asked for.").str();
    } else {
      type = cheapest(ops, target, reason);
    }
    for (CacheOpInterface op : ops) {
      Value cache = op.getCache();
      cache.setType(cast<KvType>(cache.getType()).of(type));
      appendReason(op, reason);
    }
    CacheOpInterface first = ops.front();
    first.emitRemark() << labelOf(first) << ": " << reason;
  }

  /// The smallest that loses no more than attention's weights did, where a CPU
  /// multiplies its codes as integers.
  moek::KvType cheapest(ArrayRef<CacheOpInterface> ops,
                        const moec::TargetDesc &target, std::string &reason) {
    SmallVector<Value> weights;
    const moec::DeviceDesc *device = &target.host();
    for (CacheOpInterface op : ops)
      for (Operation *reader : op.getCache().getUsers()) {
        if (isa<ChooseEntriesOp>(reader)) {
          reason =
              "Keys of an indexer in f16: it chooses by small differences.";
          return moek::KvType::F16;
        }
        device = &expectedDevice(reader, target);
        llvm::append_range(
            weights, llvm::make_filter_range(reader->getOperands(), isMatrix));
      }
    // Keys and values that are cached as they are had theirs before.
    if (weights.empty())
      for (CacheOpInterface op : ops)
        llvm::append_range(weights, projections(op));
    bool quantised = llvm::all_of(weights, hasByteCodes);
    bool codes = quantised && device->kind == moec::DeviceKind::Cpu;
    moek::KvType type = codes ? moek::KvType::Q8_0 : moek::KvType::F16;
    reason = ("KV cache in " + nameOf(type) + " with attention on " +
              device->name + ", whose weights have " +
              (quantised ? "at most" : "more than") + " 8 bits.")
                 .str();
    return type;
  }
};

} // namespace
