#include "runtime/serve/api/openai/Responses.h"

#include "runtime/base/Text.h"
#include "runtime/serve/api/CommonFields.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// Puts the messages of the conversation that goes on before the request's.
bool continueConversation(const Exchange &exchange, ResponseRequest &request) {
  if (request.previousId.empty())
    return true;
  std::optional<Json> previous = exchange.context->responses.find(
      request.previousId, exchange.request.client);
  if (!previous) {
    exchange.fail(
        {.status = 404,
         .message = fmt::format("previous_response_id {} is not known: only "
                                "the last {} responses are kept; send the "
                                "whole conversation",
                                moert::quoted(request.previousId),
                                exchange.settings().keptResponses),
         .param = "previous_response_id",
         .code = "previous_response_not_found"});
    return false;
  }
  Json &list = request.call.messages.list();
  for (Json &message : list)
    previous->push_back(std::move(message));
  list = *std::move(previous);
  return true;
}

/// The conversation with the answer as its last message.
Json withAnswer(Messages messages, const Choice &choice) {
  ChatCall call;
  call.messages = std::move(messages);
  addMessage(call, {.role = "assistant",
                    .content = choice.text,
                    .reasoning = choice.reasoning,
                    .calls = choice.calls});
  return call.messages.list();
}
} // namespace

void createResponse(Exchange exchange) {
  auto request = readBody<ResponseRequest>(
      exchange, [&](const Field &body, ResponseRequest &request) {
        readResponse(body, exchange.settings(), request);
      });
  if (!request || !continueConversation(exchange, *request))
    return;
  Messages kept = request->call.messages;
  // Instructions are of this answer alone.
  if (const Json &text = request->echoed["instructions"]; text.is_string())
    request->call.messages.setSystem(text.get_ref<const std::string &>());
  auto context = exchange.context;
  std::string client = exchange.request.client;
  answerChat(
      std::move(exchange), std::move(request->call),
      [context, client, kept = std::move(kept), isKept = request->isKept,
       echoed = std::move(request->echoed)](const ReplyFacts &facts) {
        std::string id = "resp_" + facts.id;
        return makeResponseWriter(facts, echoed, [=](const Choice &choice) {
          if (isKept)
            context->responses.keep(id, client, withAnswer(kept, choice));
        });
      });
}

} // namespace moert
