//===- Run.h - One request's generations and its answer ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_RUN_H
#define MOE_RUNTIME_SERVE_API_RUN_H

#include "runtime/serve/api/ApiContext.h"
#include "runtime/serve/api/Backend.h"
#include "runtime/serve/api/ChoiceStream.h"
#include "runtime/serve/api/ReplyWriter.h"

#include <memory>
#include <string>
#include <vector>

namespace moert {

/// The parts of a run besides its writer.
struct RunPlan {
  /// One for each prompt, of which each choice gets a copy with a seed of its
  /// own: the next number.
  std::vector<GenerationRequest> requests;
  int32_t choicesPerPrompt = 1; ///< The choices of a prompt are neighbours.
  bool streams = false;
  bool timesTokens = false; ///< Same meaning as in GenerateCall.
  ToolUse toolUse;
  /// Text that each choice begins with, as if it had been generated; empty, or
  /// one for each choice.
  std::vector<std::string> echoes = {};

  size_t choices() const { return requests.size() * size_t(choicesPerPrompt); }
};

/// Submits the requests for the exchange's client and answers with what the
/// writer makes of their events; the choices beyond those that run together
/// follow as others end. A refusal, and an error of an answer that does not
/// stream, has its own HTTP status. A stream begins as soon as the first choice
/// is in the queue, and an error is then the last thing in it. If the client
/// leaves, its generations are cancelled. `answer` takes the place of the
/// exchange's, if it is not null. Returns at once.
void startRun(const Exchange &exchange, std::shared_ptr<Backend> backend,
              RunPlan plan, std::unique_ptr<ReplyWriter> writer,
              std::shared_ptr<HttpAnswer> answer = nullptr);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_RUN_H
