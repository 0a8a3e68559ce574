//===- TensorRules.h - Devices by names of tensors --------------*- C++ -*-===//
//
// llama.cpp's -ot: "REGEX=DEVICE[,REGEX=DEVICE...]". A regular expression is
// searched in the names of the model file's tensors, the first rule that
// matches a tensor decides. Devices are CPU, CUDA0, CUDA1, ... or the target's
// own names.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_RULES_TENSORRULES_H
#define MOE_PASSES_MOE_RULES_TENSORRULES_H

#include "compiler/Machine/Targets/Target.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/moe/rules/NamePattern.h"

namespace mlir::moe {

struct TensorRule {
  std::string text;   ///< What messages show of it.
  std::string device; ///< Of the target.
  NamePattern pattern;
  std::string patternText;
};

/// The rules of the texts in their order. What a user can mend is an error: a
/// rule without a device, an unknown device, a broken pattern.
FailureOr<SmallVector<TensorRule>>
parseTensorRules(ModuleOp module, const moec::TargetDesc &target,
                 ArrayRef<std::string> texts);

/// The rule that --cpu-moe (`layers` < 0) and --n-cpu-moe stand for: one, as
/// layers without experts are among the first of many models.
std::string cpuMoeRule(int64_t layers);

/// Which rule decides about each tensor of a module.
class TensorDevices {
public:
  /// A rule that decides about no tensor, because none matches or all have one
  /// before it, is an error with the nearest name; a note if `allowIdle`.
  static FailureOr<TensorDevices>
  create(ModuleOp module, ArrayRef<TensorRule> rules, bool allowIdle);

  /// The rule of what `op` reads, and the tensor that it matched; null where
  /// none does. An error where two rules want different devices.
  struct Decision {
    const TensorRule *rule = nullptr;
    StringRef tensor;
  };
  FailureOr<Decision> of(Operation *op) const;

private:
  llvm::StringMap<const TensorRule *> ruleOf;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_RULES_TENSORRULES_H
