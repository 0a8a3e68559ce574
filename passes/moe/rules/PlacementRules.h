//===- PlacementRules.h - Parses --place ------------------------*- C++ -*-===//
//
// A rule is "[PHASE:]OPS=DEVICE". OPS is a shell pattern of labels
// ("blk.{2,3}.*"). A rule without a phase applies to all phases. If several
// rules match an op, the last one decides. "OPS=DEVICE:N" places only N routed
// experts of each layer: the first ones, or with a router profile the most used
// ones. The others go where they would go without the rule.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_RULES_PLACEMENTRULES_H
#define MOE_PASSES_MOE_RULES_PLACEMENTRULES_H

#include "compiler/Machine/Targets/Target.h"
#include "llvm/Support/GlobPattern.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mlir::moe {

struct PlacementRule {
  StringRef text;  ///< The user's text, which the other members view.
  StringRef phase; ///< Empty: every phase.
  StringRef device;
  int64_t experts = 0; ///< Number of experts per layer; 0: all.
  llvm::GlobPattern labels;

  /// Returns the text to show in messages, clipped.
  std::string shown() const;
  /// Returns whether the rule's pattern matches `op`, in any phase.
  bool names(Operation *op) const;
  /// Returns whether the rule applies to `op` in its phase.
  bool covers(Operation *op) const;
};

/// Parses the rules for a module with phases, in the user's order. `texts` must
/// outlive them. Emits a user error for a rule without a device, a device that
/// `target` does not have, a phase that the module does not have, or an invalid
/// pattern.
FailureOr<SmallVector<PlacementRule>>
parsePlacementRules(ModuleOp module, const moec::TargetDesc &target,
                    ArrayRef<std::string> texts);

/// Emits the error for a rule that covers no op, and suggests the closest
/// label.
LogicalResult matchesNothing(ModuleOp module, const PlacementRule &rule);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_RULES_PLACEMENTRULES_H
