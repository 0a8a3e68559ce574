//===- Responses.h - OpenAI's newer interface -------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_OPENAI_RESPONSES_H
#define MOE_RUNTIME_SERVE_API_OPENAI_RESPONSES_H

#include "runtime/serve/api/ApiContext.h"

#include <functional>
#include <memory>
#include <string>

namespace moert {

// Endpoints of /v1/responses.
void createResponse(Exchange exchange);
void countResponseTokens(Exchange exchange);
void retrieveResponse(Exchange exchange);
void deleteResponse(Exchange exchange);
void listResponseInput(Exchange exchange);
/// Says that there is no such thing.
void compactResponse(Exchange exchange);

/// A request for a response, with what its answer repeats.
struct ResponseRequest {
  ChatCall call;
  nlohmann::ordered_json echoed; ///< Fields of the request, as they came.
  std::string previousId;        ///< "": a new conversation.
  nlohmann::ordered_json input;  ///< The items of the request.
  bool isKept = true;
};

/// Reads a request. The messages in the list `previous` come before the
/// request's own. Its instructions come before all messages and are not stored
/// with the conversation.
void readResponse(const Field &body, const ApiSettings &settings,
                  ResponseRequest &request);

/// Called with the choice and the whole response when it is complete.
using ResponseFinished =
    std::function<void(const Choice &, const nlohmann::ordered_json &)>;
std::unique_ptr<ReplyWriter> makeResponseWriter(const ReplyFacts &facts,
                                                nlohmann::ordered_json echoed,
                                                bool hasLogprobs,
                                                ResponseFinished finished);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_OPENAI_RESPONSES_H
