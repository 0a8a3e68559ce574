#include "compiler/Targets/TargetAttr.h"
#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "passes/Passes.h"
#include "passes/Placement.h"
#include "passes/Support.h"
#include "runtime/base/Text.h"
#include "runtime/schema/OpTable.h"

namespace mlir::moe {
#define GEN_PASS_DEF_SPECIALIZEPHASESPASS
#include "passes/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Most rows of hidden states that @logits takes at once: perplexity and the
/// logits command ask for many positions, generation for one.
constexpr int64_t kLogitsTokens = 64;

struct SpecializePhases
    : moe::impl::SpecializePhasesPassBase<SpecializePhases> {
  using SpecializePhasesPassBase::SpecializePhasesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkOptions(module)))
      return signalPassFailure();
    auto forward = module.lookupSymbol<func::FuncOp>(kForwardName);
    auto logits = module.lookupSymbol<func::FuncOp>(kLogitsName);
    if (!forward || !logits) {
      module.emitError("expected a function @")
          << (forward ? kLogitsName : kForwardName) << " of the model graph";
      return signalPassFailure();
    }

    setKvType(module, forward);
    if (failed(setKvRows(module)))
      return signalPassFailure();
    // A step never has more tokens of a sequence than that has positions.
    int64_t decodeMax = std::min(int64_t(decodeTokens), int64_t(context));
    int64_t prefillMax = std::min(int64_t(ubatch), int64_t(context));
    clonePhase(forward, kDecodeName, 1, decodeMax);
    if (sequences > 1)
      clonePhase(forward, kBatchName, 2, sequences, sequences);
    if (prefillMax > decodeMax)
      clonePhase(forward, kPrefillName, decodeMax + 1, prefillMax);
    forward.erase();
    int64_t rows = std::min(kLogitsTokens, int64_t(context));
    setPhase(logits, kLogitsName, 1, std::max(rows, int64_t(sequences)),
             sequences);
  }

private:
  LogicalResult checkOptions(ModuleOp module) {
    struct {
      StringRef name;
      int64_t value;
    } const positive[] = {{"ubatch", ubatch},
                          {"context", context},
                          {"decode-tokens", decodeTokens}};
    for (const auto &option : positive)
      if (option.value < 1 || option.value > INT32_MAX)
        return module.emitError() << option.name << " is " << option.value
                                  << ", expected 1 to " << INT32_MAX;
    if (sequences < 1 || sequences > moert::kMaxSequences)
      return module.emitError() << "sequences is " << int64_t(sequences)
                                << ", expected 1 to " << moert::kMaxSequences;
    if (kvBudget < 0)
      return module.emitError()
             << "kv-budget is " << int64_t(kvBudget) << ", expected at least 0";
    if (kvType != kAutoKvType && !moek::kvTypeFromName(kvType))
      return module.emitError()
             << "kv-type is '" << kvType << "', which is no type of a KV cache";
    return success();
  }

  /// With `auto`, 8 bits on a CPU where the weights next to the cache have no
  /// more: what is lost to it is less than what they lost already.
  void setKvType(ModuleOp module, func::FuncOp forward) {
    std::string name = kvType;
    if (name == kAutoKvType) {
      bool quantised = !mayRunOnGpu(module);
      forward.walk([&](MlaAttentionOp op) {
        for (Value weight : {op.getWk(), op.getWv()})
          quantised &= hasByteCodes(weight);
      });
      moek::KvType type = quantised ? moek::KvType::Q8_0 : moek::KvType::F16;
      name = moek::kvTypeName(type);
      module.emitRemark() << "KV cache in " << name << ": "
                          << (quantised ? "CPU only, with attention weights of "
                                          "at most 8 bits"
                                        : "a GPU, or attention weights of more "
                                          "than 8 bits");
    }
    module->setAttr(kKvTypeAttr, Builder(module).getStringAttr(name));
  }

  /// Needs the type of the cache.
  LogicalResult setKvRows(ModuleOp module) {
    int64_t rows = kvRowsOf(context, sequences);
    if (kvBudget > 0) {
      int64_t page = kvPageBytes(module), one = kvRowsOf(context);
      // Without a cache there is nothing to keep within the budget.
      int64_t most = INT32_MAX / moek::kKvPage; // Rows are numbered by int32_t.
      rows = page > 0 ? std::min(kvBudget / page, most) * moek::kKvPage : one;
      if (rows < one)
        return userError(
            module,
            "a KV cache of " + formatCapacity(double(kvBudget)) + " holds " +
                Twine(rows) + " tokens, less than a context of " +
                Twine(int64_t(context)),
            "give it at least " +
                moert::sizeWord(uint64_t(one / moek::kKvPage * page)));
    }
    module->setAttr(kKvRowsAttr, Builder(module).getI64IntegerAttr(rows));
    return success();
  }

  /// Whether the target has a GPU, where attention goes if it fits.
  static bool mayRunOnGpu(ModuleOp module) {
    if (!module->hasAttr(kTargetAttr))
      return false;
    FailureOr<moec::TargetDesc> target = moec::targetOf(module);
    return succeeded(target) && gpuCount(*target) > 0;
  }

  /// Whether a weight's elements are codes of at most 8 bits.
  static bool hasByteCodes(Value weight) {
    auto type = cast<RankedTensorType>(weight.getType());
    std::optional<moek::Format> format = getFormat(type.getElementType());
    return format && moek::formatInfo(*format).blockElements > 1;
  }

  void setPhase(func::FuncOp function, StringRef name, int64_t min, int64_t max,
                int64_t ofSequences = 1) {
    Builder builder(function.getContext());
    function->setAttr(kPhaseAttr,
                      PhaseAttr::get(builder.getContext(),
                                     builder.getStringAttr(name), min, max,
                                     context, ofSequences));
    ++numPhases;
  }

  void clonePhase(func::FuncOp forward, StringRef name, int64_t min,
                  int64_t max, int64_t ofSequences = 1) {
    OpBuilder builder(forward);
    auto clone = cast<func::FuncOp>(builder.clone(*forward));
    clone.setName(name);
    setPhase(clone, name, min, max, ofSequences);
  }
};

} // namespace
