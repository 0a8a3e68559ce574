//===- TensorRules.h - Parses --override-tensor -----------------*- C++ -*-===//
//
// Implements llama.cpp's -ot: "REGEX=DEVICE[,REGEX=DEVICE...]". Each regular
// expression is searched in the names of the model file's tensors; the first
// rule that matches a tensor decides. Devices are CPU, CUDA0, CUDA1, ... or the
// target's own names.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_RULES_TENSORRULES_H
#define MOE_PASSES_MOE_RULES_TENSORRULES_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/WeightTable.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/moe/rules/NamePattern.h"

namespace mlir::moe {

struct TensorRule {
  std::string text;   ///< The rule as shown in messages.
  std::string device; ///< A device of the target.
  NamePattern pattern;
  std::string patternText;
  /// Whether it was made of a file's rules, for a single tensor or layer.
  bool isOfFile = false;
  /// The layer whose attention it places; it has no pattern then.
  std::optional<int64_t> attentionOf;
};

/// Returns a rule whose reason, where it decides, is `source`, as in
/// "rules.yaml:10", and not the text of the rule.
std::string rulesFrom(const std::string &source, const std::string &rule);

/// Returns a rule that puts what uses the cache of `layer` on `device`, whatever
/// rules about tensors ask for. Its reason is `source`.
std::string attentionRuleFrom(const std::string &source, int64_t layer,
                              const std::string &device);

/// Parses the rules of all texts in order. Emits a user error for a rule
/// without a device, an unknown device or an invalid pattern.
FailureOr<SmallVector<TensorRule>>
parseTensorRules(ModuleOp module, const moec::TargetDesc &target,
                 ArrayRef<std::string> texts);

/// Returns the rule that --cpu-moe (`layers` < 0) and --n-cpu-moe stand for. It
/// is a single rule, because the first layers of many models have no experts,
/// for which separate rules would match nothing.
std::string cpuMoeRule(int64_t layers);

/// The rule that decides about each tensor of a module.
class TensorDevices {
public:
  /// Matches tensors with rules, which must have patterns. A rule that decides
  /// about no tensor, because it matches none or earlier rules match all of
  /// them, is an error that suggests the closest name; with `allowIdle` it is a
  /// note.
  static FailureOr<TensorDevices>
  create(ModuleOp module, ArrayRef<TensorRule> rules, bool allowIdle);

  /// The rule that places a tensor which `op` reads, and that tensor, or what
  /// else the rule places; null if no rule matches. Emits an error if two rules
  /// ask for different devices.
  struct Decision {
    const TensorRule *rule = nullptr;
    StringRef tensor;
  };
  FailureOr<Decision> of(Operation *op) const;
  /// Whether `op` reads a tensor that `which` is true for.
  bool reads(Operation *op, function_ref<bool(StringRef)> which) const;

private:
  SmallVector<StringRef> tensorsOf(Operation *op) const;

  explicit TensorDevices(ModuleOp module) : weights(module) {}

  WeightTable weights;
  llvm::StringMap<const TensorRule *> ruleOf;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_RULES_TENSORRULES_H
