//===- Responses.h - OpenAI's newer interface -------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_OPENAI_RESPONSES_H
#define MOE_RUNTIME_SERVE_API_OPENAI_RESPONSES_H

#include "runtime/serve/api/ApiContext.h"

#include <functional>
#include <memory>
#include <string>

namespace moert {

/// Endpoint: POST /v1/responses.
void createResponse(Exchange exchange);

/// A request for a response, with what its answer repeats.
struct ResponseRequest {
  ChatCall call;
  nlohmann::ordered_json echoed; ///< Fields of the request, as they came.
  std::string previousId;        ///< "": a new conversation.
  bool isKept = true;
};

/// Reads a request. The messages in the list `previous` come before the
/// request's own. Its instructions come before all messages and are not stored
/// with the conversation.
void readResponse(const Field &body, const ApiSettings &settings,
                  ResponseRequest &request);

/// `finished` is called with the choice when it is complete.
std::unique_ptr<ReplyWriter>
makeResponseWriter(const ReplyFacts &facts, nlohmann::ordered_json echoed,
                   std::function<void(const Choice &)> finished);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_OPENAI_RESPONSES_H
