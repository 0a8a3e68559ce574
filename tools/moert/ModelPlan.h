//===- ModelPlan.h - Compiles a model given in place of a plan --*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_MODELPLAN_H
#define MOE_TOOLS_MOERT_MODELPLAN_H

#include "runtime/base/Status.h"
#include "tools/moert/CompileFlags.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// `words` are the arguments of moert. If they begin with a file in place of a
/// command, as in "moert model.gguf --temp 0" or "moert -m model.gguf", they
/// become those of `moert chat` or, with a prompt, `moert run`. Fails with Io
/// for the name of a model or a plan that does not exist.
StatusOr<std::vector<std::string>> withCommand(std::vector<std::string> words);

/// The requirements for the plan of a model.
struct PlanWish {
  int32_t sequences = 1; ///< Number of texts at the same time.
  int64_t context = 0;   ///< Tokens of each; 0: as many as fit this machine.
};

/// Returns `file` if it is a plan. Of a model it returns the path of a kept
/// plan (KeptPlans.h) that was compiled with these options and holds the wish;
/// where there is none, moec compiles one for this machine: for that context,
/// or a ladder of the contexts that fit. Fails with the code of moec, whose own
/// messages tell why; with Io if there is no moec; with Usage if options were
/// given beside a plan. `command` is the one of moert that wants it.
StatusOr<std::string> planOfModel(const std::string &file, const PlanWish &wish,
                                  const CompileFlags &options,
                                  const std::string &command);

/// Returns whether the file is a GGUF model.
bool isModel(const std::string &file);

} // namespace moert

#endif // MOE_TOOLS_MOERT_MODELPLAN_H
