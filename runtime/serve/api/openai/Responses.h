//===- Responses.h - OpenAI's newer interface -------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_OPENAI_RESPONSES_H
#define MOE_RUNTIME_SERVE_API_OPENAI_RESPONSES_H

#include "runtime/serve/api/ApiContext.h"

#include <functional>
#include <memory>
#include <optional>
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

// Endpoints of /v1/conversations.
void createConversation(Exchange exchange);
void retrieveConversation(Exchange exchange);
void modifyConversation(Exchange exchange);
void deleteConversation(Exchange exchange);
void addConversationItems(Exchange exchange);
void listConversationItems(Exchange exchange);
void retrieveConversationItem(Exchange exchange);
void deleteConversationItem(Exchange exchange);

/// The items of a conversation of this client, the oldest first; answers with
/// an error if there is none.
std::optional<nlohmann::ordered_json>
conversationItems(const Exchange &exchange, const std::string &conversation);
/// Adds items to a conversation. What cannot be kept is lost: the answer that
/// it belongs to has been sent.
void keepItems(const ApiSettings &settings, const std::string &client,
               const std::string &conversation,
               const nlohmann::ordered_json &items);
/// Items of a request in the form in which the interface lists them, with ids
/// that have `id` in them.
nlohmann::ordered_json listedItems(const nlohmann::ordered_json &input,
                                   const std::string &id);
/// Returns items that are stored once more: all get new ids.
nlohmann::ordered_json newItems(nlohmann::ordered_json input,
                                const std::string &id);

/// A request for a response, with what its answer repeats.
struct ResponseRequest {
  ChatCall call;
  /// Fields of the request that the answer repeats.
  nlohmann::ordered_json echoed;
  std::string previousId;       ///< "" for a new conversation.
  std::string conversation;     ///< Conversation of the response; "": none.
  nlohmann::ordered_json input; ///< The items of the request.
  bool isKept = true;
};

/// Reads items as messages of the call, which has its tools already.
void readResponseItems(const Field &items, ChatCall &call);
/// The conversation that a request belongs to; "" if it names none.
std::string readConversation(const Field &body);
/// Reads a request. Its items come after the messages that the call has. Its
/// instructions come before all messages and are not stored with the
/// conversation.
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
