//===- Support.h - Helpers shared by the passes -----------------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_SUPPORT_H
#define MOE_PASSES_MOE_SUPPORT_H

#include "compiler/Machine/CostModel/TypicalStep.h"
#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/Moe.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace mlir::moe {

/// The model's function for tokens, of which moe-specialize-phases makes
/// phases. Functions that are phases are called as the phase is.
inline constexpr llvm::StringLiteral kForwardName = "forward";

using moert::PhaseKind;
/// The step for which a phase's costs are compared.
using moec::TypicalStep;

/// Returns the function of a phase; null if the module has none.
inline func::FuncOp findPhase(ModuleOp module, PhaseKind kind) {
  return module.lookupSymbol<func::FuncOp>(nameOf(kind));
}

/// Returns the typical step of `phase`; see
/// compiler/Machine/CostModel/TypicalStep.h.
TypicalStep typicalStep(PhaseAttr phase);

/// Returns whether every token that a single sequence generates needs a step of
/// this phase.
bool isOfOneToken(PhaseAttr phase);

/// Returns the KV cache rows that `sequences` sequences of at most `context`
/// tokens need: each sequence takes whole pages.
int64_t kvRowsOf(int64_t context, int64_t sequences = 1);
/// Returns kKvRowsAttr of the module, or the rows of one context without it.
int64_t kvRowsOf(ModuleOp module, int64_t context);
/// Returns the number of state rows for `sequences` sequences that run at once:
/// one each, plus some for checkpoints (runtime/cache/StatePool.h).
constexpr int64_t stateRowsOf(int64_t sequences) {
  return sequences + 2 + sequences / 4;
}
/// Returns the rows for the most sequences of any phase of the module.
int64_t stateRowsOf(ModuleOp module);
/// The layers whose caches and states an op appends to, reads or updates.
/// Caches that some op uses together have to be on one device, and so have
/// those that other ops use together with these.
class CacheLayers {
public:
  explicit CacheLayers(ModuleOp module);

  /// Returns the first of the layers whose caches have to be where those of
  /// `op` are; nothing if it uses none, or one beside a table that stays in the
  /// model file, which is the host's.
  std::optional<int64_t> of(Operation *op) const;

private:
  llvm::DenseMap<int64_t, int64_t> firstOf; ///< Key: the layer of a cache.
};
/// Returns whether `op` is an attention op that reads a layer's cache.
bool readsCache(Operation *op);

/// Returns whether `op` exists if attention is on `device` (kOnlyOnAttr).
bool existsOn(Operation *op, const moec::DeviceDesc &device);

/// Emits an error that the user can fix: `cause` says what is wrong, and `fix`,
/// a note, says what to do. Errors without such a note are compiler bugs.
LogicalResult userError(Operation *op, const Twine &cause, const Twine &fix);

/// Adds a note to the module; moec compile prints it, and the plan stores it.
void addNote(ModuleOp module, const Twine &note);

/// Whether the model has routed experts.
bool hasExperts(ModuleOp module);

/// Appends a sentence to the op's moe.reason.
void appendReason(Operation *op, const Twine &sentence);

/// Formats a size of memory in powers of 1024: "12.3 GiB".
std::string formatCapacity(double bytes);
/// Formats traffic in powers of 1000, like bandwidths: "75.5 MB".
std::string formatTraffic(double bytes);
/// Formats a time: "1.2 ms".
std::string formatSeconds(double seconds);
/// Formats a fraction: "3.1 %", "under 0.1 %".
std::string formatPercent(double fraction);

/// Returns the device that holds the op's result: the destination of a
/// transfer, else moe.device. Null if the op has no device.
StringAttr deviceOfResult(Operation *op);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_SUPPORT_H
