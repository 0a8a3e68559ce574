//===- ModuleRules.h - Applies KTransformers' rule files --------*- C++ -*-===//
//
// A rule file is a list of {match: {name, class}, replace: {class, kwargs},
// recursive}. Modules are visited from the outermost inwards; each one takes
// the first rule that matches it, and `recursive: False` ends the descent
// there. Names are regular expressions over Hugging Face's names; classes are
// compared by kind (ModuleNames.h). Only the devices of a rule are used; moec
// has operators of its own. A rule that an attention takes places what uses the
// cache of its layer. Modules without a rule are placed by the search.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_DRIVER_MODULERULES_H
#define MOE_COMPILER_DRIVER_MODULERULES_H

#include "compiler/Machine/Targets/Target.h"
#include "runtime/base/InputTexts.h"

#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// The model to which the rules of a file apply.
struct RuledModel {
  std::string_view architecture;
  const std::vector<std::string> &tensors; ///< Names in the GGUF file.
  const TargetDesc &target;
  int64_t ubatch;  ///< The most tokens of a prefill step.
  int64_t context; ///< The most tokens of a sequence.
  /// Whether --stream-experts was given, which the file does not change.
  bool streams;
  /// Whether rules without effect are notes.
  bool allowUnmatched;
};

struct ModuleRules {
  /// Rules for single tensors and for the attention of single layers, in the
  /// syntax of passes/moe/rules/TensorRules.h.
  std::vector<std::string> tensorRules;
  /// Tokens of a prompt from which on layers are streamed to a GPU, and the
  /// line and key that say so; 0: the file does not stream.
  int64_t streamFrom = 0;
  std::string streamSource;
  /// Whether the file wants experts on the host in all steps of a prompt.
  bool keepsExperts = false;
  std::vector<std::string> notes; ///< Parts of the rules that have no effect.
};

/// Reads the file at `path` through `texts` and applies its rules to a model.
/// Fails as readRuleFile() does, and with InvalidFile for all rules that match
/// nothing or only modules of earlier rules; if these are allowed they are
/// notes.
moert::StatusOr<ModuleRules> readModuleRules(moert::InputTexts &texts,
                                             const std::string &path,
                                             const RuledModel &model);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_MODULERULES_H
