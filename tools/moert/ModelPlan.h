//===- ModelPlan.h - Compiles a model given in place of a plan --*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_MODELPLAN_H
#define MOE_TOOLS_MOERT_MODELPLAN_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// `words` are the arguments of moert. If they begin with a file in place of a
/// command, as in "moert model.gguf --temp 0" or "moert -m model.gguf", they
/// become those of `moert chat` or, with a prompt, `moert run`. A model is
/// replaced by its plan, which moec compiles for this machine once, into the
/// user's cache folder. Returns the error of moec; Io if there is no moec;
/// Usage for a file that is neither plan nor model.
StatusOr<std::vector<std::string>> withPlan(std::vector<std::string> words);

/// Returns `file` if it is no model, else the path of its plan for at least
/// `sequences` texts at the same time, which moec compiles where the cache has
/// none: a ladder of the contexts that fit this machine, or a plan for
/// `context` tokens where that ladder does not hold so many; 0: any. Fails as
/// withPlan() does.
StatusOr<std::string> planOfModel(const std::string &file, int32_t sequences,
                                  int64_t context = 0);

} // namespace moert

#endif // MOE_TOOLS_MOERT_MODELPLAN_H
