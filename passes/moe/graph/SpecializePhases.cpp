#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "runtime/schema/OpTable.h"

namespace mlir::moe {
#define GEN_PASS_DEF_SPECIALIZEPHASESPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Most hidden states per call of @logits: perplexity and the logits command
/// ask for many positions, generation for one.
constexpr int64_t kLogitsTokens = 64;

struct SpecializePhases
    : moe::impl::SpecializePhasesPassBase<SpecializePhases> {
  using SpecializePhasesPassBase::SpecializePhasesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkOptions(module)))
      return signalPassFailure();
    auto forward = module.lookupSymbol<func::FuncOp>(kForwardName);
    auto logits = findPhase(module, PhaseKind::Logits);
    if (!forward || !logits) {
      module.emitError("expected a function @")
          << (forward ? StringRef(nameOf(PhaseKind::Logits))
                      : StringRef(kForwardName))
          << " of the model graph";
      return signalPassFailure();
    }

    // A step cannot have more tokens of a sequence than the context has
    // positions.
    int64_t decodeMax = std::min(int64_t(decodeTokens), int64_t(context));
    int64_t prefillMax =
        std::min(ubatch ? int64_t(ubatch) : moec::kUbatch, int64_t(context));
    clonePhase(forward, nameOf(PhaseKind::Decode), 1, decodeMax);
    if (sequences > 1)
      clonePhase(forward, nameOf(PhaseKind::Batch), 2, sequences, sequences);
    if (prefillMax > decodeMax)
      clonePhase(forward, nameOf(PhaseKind::Prefill), decodeMax + 1,
                 prefillMax);
    forward.erase();
    int64_t rows = std::min(kLogitsTokens, int64_t(context));
    rows = std::max(rows, int64_t(sequences));
    setPhase(logits, nameOf(PhaseKind::Logits), 1, rows, sequences);
    // Other phases for any rows are functions of the model graph too.
    for (const moert::PhaseInfo &phase : moert::kPhases)
      if (auto own = findPhase(module, phase.kind);
          own && phase.rows == moert::PhaseRows::Any && own != logits)
        setPhase(own, phase.name, 1, rows);
  }

private:
  LogicalResult checkOptions(ModuleOp module) {
    struct {
      StringRef name;
      int64_t value;
    } const positive[] = {{"ubatch", ubatch ? int64_t(ubatch) : 1},
                          {"context", context},
                          {"decode-tokens", decodeTokens}};
    for (const auto &option : positive)
      if (option.value < 1 || option.value > INT32_MAX)
        return module.emitError() << option.name << " is " << option.value
                                  << ", expected 1 to " << INT32_MAX;
    if (sequences < 1 || sequences > moert::kMaxSequences)
      return module.emitError() << "sequences is " << int64_t(sequences)
                                << ", expected 1 to " << moert::kMaxSequences;
    return success();
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
