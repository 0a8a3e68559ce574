//===- ModuleRules.h - Reads KTransformers' rule files ----------*- C++ -*-===//
//
// A rule file is a list of {match: {name, class}, replace: {class, kwargs},
// recursive}. Modules are visited from the outermost inwards; each one takes
// the first rule that matches it, and `recursive: False` ends the descent
// there. Names are regular expressions over Hugging Face's names; classes are
// compared by kind (ModuleNames.h). Only the devices of a rule are used; moec
// has operators of its own. Modules without a rule are placed by the search.
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

struct ModuleRules {
  /// One rule per tensor, in the syntax of passes/moe/rules/TensorRules.h.
  std::vector<std::string> tensorRules;
  /// Tokens of a prompt from which on layers are streamed to a GPU; 0: the file
  /// says nothing of it.
  int64_t streamFrom = 0;
  std::vector<std::string> notes; ///< Requests of the file that are ignored.
};

/// Reads the file at `path` through `texts` and applies its rules to the
/// `tensors` of a model of `architecture`. Fails with InvalidFile, file and
/// line for an invalid rule, a device that `target` does not have, an operator
/// on a device that cannot run it, and a rule that matches nothing or only
/// modules of earlier rules. With `allowUnmatched`, the last two are notes.
moert::StatusOr<ModuleRules>
readModuleRules(moert::InputTexts &texts, const std::string &path,
                std::string_view architecture,
                const std::vector<std::string> &tensors,
                const TargetDesc &target, bool allowUnmatched);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_MODULERULES_H
