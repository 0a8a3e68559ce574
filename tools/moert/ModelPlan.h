//===- ModelPlan.h - The plan of a model that was named ---------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_MODELPLAN_H
#define MOE_TOOLS_MOERT_MODELPLAN_H

#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace moert {

/// `words` are the arguments of moert. Where they begin with a file in place of
/// a command, as in "moert model.gguf --temp 0" or "moert -m model.gguf", they
/// become those of `moert chat`, or of `moert run` where there is a prompt. Of
/// a model it is the plan that is run: moec compiles it for this machine, once,
/// into the user's cache folder. Fails with what moec fails with, with Io where
/// there is no moec, and with Usage for a file that is neither.
StatusOr<std::vector<std::string>> withPlan(std::vector<std::string> words);

} // namespace moert

#endif // MOE_TOOLS_MOERT_MODELPLAN_H
