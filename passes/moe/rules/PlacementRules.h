//===- PlacementRules.h - What a user says of where ops go ------*- C++ -*-===//
//
// A rule is "[PHASE:]OPS=DEVICE". OPS is a pattern of labels as in a shell
// ("blk.{2,3}.*"); without a phase the rule is for all of them. Of several
// rules that match an op, the last decides. "OPS=DEVICE:N" is about routed
// experts: the first N of each layer go there, and the others wherever they
// would without the rule.
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
  StringRef text;  ///< As the user wrote it; the other members view into it.
  StringRef phase; ///< Empty: every phase.
  StringRef device;
  int64_t experts = 0; ///< Of a layer, from the first on; 0: all.
  llvm::GlobPattern labels;

  /// What messages show of it.
  std::string shown() const;
  /// Whether it is for `op`, of whatever phase.
  bool names(Operation *op) const;
  /// Whether it is for `op` in its phase.
  bool covers(Operation *op) const;
};

/// Rules of a module that has phases, in the user's order. `texts` outlive
/// them. What a user can mend is an error: a rule without a device, a device
/// that `target` does not have, a phase that the module does not have, a broken
/// pattern.
FailureOr<SmallVector<PlacementRule>>
parsePlacementRules(ModuleOp module, const moec::TargetDesc &target,
                    ArrayRef<std::string> texts);

/// Emits the error of a rule that covers no op, with the nearest label.
LogicalResult matchesNothing(ModuleOp module, const PlacementRule &rule);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_RULES_PLACEMENTRULES_H
