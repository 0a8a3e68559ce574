//===- Run.h - One request's generations and its answer ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_RUN_H
#define MOE_RUNTIME_SERVE_API_RUN_H

#include "runtime/serve/api/Backend.h"
#include "runtime/serve/api/ChoiceStream.h"
#include "runtime/serve/api/ReplyWriter.h"

#include <memory>
#include <string>
#include <vector>

namespace moert {

/// What a run needs besides a writer.
struct RunPlan {
  /// One for each choice; the choices of a prompt are neighbours.
  std::vector<GenerationRequest> requests;
  int32_t choicesPerPrompt = 1;
  bool streams = false;
  ToolUse toolUse;
  /// Text that each choice begins with, as if it had been generated; empty, or
  /// one for each request.
  std::vector<std::string> echoes = {};
};

/// Submits the requests and answers with what the writer makes of their events.
/// An error before the first byte has its own HTTP status; a later one is the
/// last thing in the stream. If the client leaves, its generations are
/// cancelled. Returns at once.
void startRun(std::shared_ptr<Backend> backend,
              std::shared_ptr<HttpAnswer> answer, RunPlan plan,
              std::unique_ptr<ReplyWriter> writer);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_RUN_H
