// The contexts that --ladder auto stands for.
#include "compiler/Driver/Compilation.h"
#include "compiler/Driver/LadderCompilation.h"

#include <algorithm>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Powers of two of the usual context that are shorter than what the model was
/// trained for, and that, the longest first.
std::vector<int64_t> contextsUpTo(int64_t trained) {
  std::vector<int64_t> contexts;
  for (int64_t context = kDefaultContext; context < trained; context *= 2)
    contexts.push_back(context);
  contexts.push_back(trained);
  std::ranges::reverse(contexts);
  return contexts;
}

/// Whether a request has a place on the target.
Status place(const CompileRequest &request, const CompileInputs &given,
             std::optional<PassFailure> &failed) {
  return compileFor(asTrial(request), given, failed).status();
}
} // namespace

StatusOr<std::vector<LadderRung>> ladderThatFits(const CompileRequest &request,
                                                 const CompileInputs &given) {
  MOE_ASSIGN_OR_RETURN(int64_t trained, trainedContext(request, given.model));
  std::vector<LadderRung> ladder;
  bool ownContextFits = false;
  for (int64_t context : contextsUpTo(trained)) {
    CompileRequest own = request;
    own.ladder.clear();
    own.context = context;
    LadderRung rung{.context = context, .isAuto = true};
    std::optional<PassFailure> failed;
    // What fits with a longer context fits with a shorter one.
    if (!ownContextFits)
      ownContextFits = place(own, given, failed).isOk();
    if (failed && failed->failure.code != StatusCode::DoesNotFit)
      return failed->failure.status();
    if (!ownContextFits) {
      rung.kvBudget = own.kvBudget = failed ? failed->context.cacheBytes : 0;
      if (own.sequences == 1 || request.kvBudget > 0 || rung.kvBudget == 0 ||
          !place(own, given, failed).isOk())
        continue;
    }
    ladder.push_back(rung);
  }
  std::ranges::reverse(ladder);
  return ladder;
}

} // namespace moec
