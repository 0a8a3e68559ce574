//===- ModuleRules.h - KTransformers' files of rules ------------*- C++ -*-===//
//
// A list of {match: {name, class}, replace: {class, kwargs}, recursive}: of the
// modules of a model, from the outermost inwards, each has the first rule that
// matches it, and `recursive: False` ends the descent there. Names are searched
// for a regular expression in Hugging Face's spelling; classes are taken for
// what they are (ModuleNames.h). What a rule says of devices is kept; operators
// are moec's own. What no rule matches is left to the search.
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
  /// As passes/moe/rules/TensorRules.h has them: one for each tensor.
  std::vector<std::string> tensorRules;
  std::vector<std::string> notes; ///< What the file asks for and is not done.
};

/// What the rules of a file, read through `texts`, say of `tensors` of
/// `architecture`. InvalidFile, with file and line, for what is no such rule,
/// for a device that `target` does not have, for an operator on a device that
/// it is not for, and for a rule that matches nothing or nothing that is left;
/// with `allowUnmatched` the last two are notes.
moert::StatusOr<ModuleRules>
readModuleRules(moert::InputTexts &texts, const std::string &path,
                std::string_view architecture,
                const std::vector<std::string> &tensors,
                const TargetDesc &target, bool allowUnmatched);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_MODULERULES_H
