//===- Support.h - What passes share ----------------------------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_SUPPORT_H
#define MOE_PASSES_MOE_SUPPORT_H

#include "compiler/Machine/CostModel/TypicalStep.h"
#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/Moe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace mlir::moe {

/// Names of the functions of a module.
inline constexpr llvm::StringLiteral kForwardName = "forward";
inline constexpr llvm::StringLiteral kDecodeName = "decode";
inline constexpr llvm::StringLiteral kPrefillName = "prefill";
inline constexpr llvm::StringLiteral kBatchName = "batch";
inline constexpr llvm::StringLiteral kLogitsName = "logits";
/// The phase of prompts' longer steps.
inline constexpr llvm::StringLiteral kStreamedName = "streamed_prefill";

/// The step that costs of a phase are compared for.
using moec::TypicalStep;

/// As compiler/Machine/CostModel/TypicalStep.h says.
TypicalStep typicalStep(PhaseAttr phase);

/// The phase of the function around `op`, or null.
PhaseAttr phaseOf(Operation *op);
/// Whether a token that one sequence generates goes through the phase.
bool isOfOneToken(PhaseAttr phase);

/// Rows of the KV cache that sequences of at most `context` tokens take: whole
/// pages of each.
int64_t kvRowsOf(int64_t context, int64_t sequences = 1);
/// kKvRowsAttr of the module, without it one context.
int64_t kvRowsOf(ModuleOp module, int64_t context);
/// Rows of layers' states for so many sequences that run together: theirs, and
/// some for checkpoints (runtime/cache/StatePool.h).
constexpr int64_t stateRowsOf(int64_t sequences) {
  return sequences + 2 + sequences / 4;
}
/// Likewise of the module's phases.
int64_t stateRowsOf(ModuleOp module);
/// Whether `op` is an attention, which reads the cache of a layer.
bool readsCache(Operation *op);

/// The device where placement tries to put `attention`: its moe.device if it
/// has one (moe-foresee-devices), else the first GPU, else the host.
const moec::DeviceDesc &expectedDevice(Operation *attention,
                                       const moec::TargetDesc &target);

/// What identifies a weight, stored or computed, across functions.
Attribute weightKey(Value weight);

/// An error that is the user's to mend: what is wrong and, as a note, what to
/// do about it. Errors without a note are bugs of this compiler.
LogicalResult userError(Operation *op, const Twine &cause, const Twine &fix);

/// Adds a note, which compile prints and plans keep.
void addNote(ModuleOp module, const Twine &note);

/// Adds a sentence to moe.reason.
void appendReason(Operation *op, const Twine &sentence);

/// "12.3 GiB": sizes of memory, in powers of 1024.
std::string formatCapacity(double bytes);
/// "75.5 MB": traffic, in powers of 1000 like bandwidths.
std::string formatTraffic(double bytes);
/// "1.2 ms"
std::string formatSeconds(double seconds);
/// "3.1 %", "under 0.1 %"
std::string formatPercent(double fraction);

/// The device that holds an op's result; for a transfer, where it arrives.
/// Null without moe.device.
StringAttr deviceOfResult(Operation *op);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_SUPPORT_H
