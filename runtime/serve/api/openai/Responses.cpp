#include "runtime/serve/api/openai/Responses.h"

#include "runtime/base/Text.h"
#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/StoredObjects.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
constexpr const char *kKind = "response";

/// Puts the messages of the conversation that goes on before the request's.
bool continueConversation(const Exchange &exchange, ResponseRequest &request) {
  if (request.previousId.empty())
    return true;
  ObjectStore *store = exchange.settings().store.get();
  auto found =
      store ? store->find(kKind, request.previousId, exchange.request.client)
            : std::optional<StoredObject>();
  if (!found || !*found) {
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
  Json previous = Json::parse((*found)->body)["messages"];
  Json &list = request.call.messages.list();
  for (Json &message : list)
    previous.push_back(std::move(message));
  list = std::move(previous);
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

/// Keeps a response with what a request that continues it needs, and drops the
/// oldest of its client. A response that cannot be kept is answered as well.
void keep(const ApiSettings &settings, const std::string &client, Json response,
          Json messages, const Json &input) {
  if (!settings.store)
    return;
  StoredObject object{.id = response["id"],
                      .kind = kKind,
                      .owner = client,
                      .created = response["created_at"]};
  object.body = jsonText({{"response", std::move(response)},
                          {"messages", std::move(messages)},
                          {"input", input}});
  // Makes room first: an old response makes place for a new one.
  size_t entries = settings.keptResponses;
  if (object.body.size() > settings.keptResponseBytes || entries == 0)
    return;
  if (settings.store->trim(kKind, client, entries - 1,
                           settings.keptResponseBytes - object.body.size()))
    (void)settings.store->add({std::move(object)});
}

/// Puts the messages of the conversation that it belongs to before the
/// request's.
bool readStored(const Exchange &exchange, ResponseRequest &request) {
  if (request.conversation.empty())
    return true;
  auto items = conversationItems(exchange, request.conversation);
  if (!items)
    return false;
  Problem problem;
  ChatCall stored;
  stored.origins = request.call.origins;
  readResponseItems(Field(*items, problem), stored);
  if (problem.error) {
    exchange.fail(*problem.error);
    return false;
  }
  Json &list = request.call.messages.list();
  Json &earlier = stored.messages.list();
  list.insert(list.begin(), earlier.begin(), earlier.end());
  return true;
}

/// Reads a request with the conversation that it goes on with; answers with an
/// error if there is one.
std::optional<ResponseRequest> readRequest(Exchange &exchange) {
  auto request = readBody<ResponseRequest>(
      exchange, [&](const Field &body, ResponseRequest &request) {
        readResponse(body, exchange.settings(), request);
      });
  if (!request)
    return std::nullopt;
  if (exchange.settings().store)
    exchange.settings().store->tidy();
  if (!continueConversation(exchange, *request) ||
      !readStored(exchange, *request))
    return std::nullopt;
  return request;
}

/// Instructions belong to this answer alone.
void addInstructions(ResponseRequest &request) {
  if (const Json &text = request.echoed["instructions"]; text.is_string())
    addInstructions(request.call, text.get_ref<const std::string &>());
}

std::optional<Json> keptResponse(const Exchange &exchange) {
  return findObject(exchange, kKind, exchange.names[0]);
}
} // namespace

Json newItems(Json input, const std::string &id) {
  if (input.is_array())
    for (Json &item : input)
      item.erase("id");
  return listedItems(input, id);
}

Json listedItems(const Json &input, const std::string &id) {
  Json items = input;
  if (input.is_string())
    items = Json::array({{{"role", "user"}, {"content", input}}});
  for (size_t i = 0; i < items.size(); ++i) {
    Json &item = items[i];
    if (!item.contains("type"))
      item["type"] = "message";
    if (!item.contains("id"))
      item["id"] = fmt::format("item_{}_{}", id, i);
    if (item["type"] != "message")
      continue;
    item["status"] = "completed";
    const char *type =
        item["role"] == "assistant" ? "output_text" : "input_text";
    if (item["content"].is_string())
      item["content"] =
          Json::array({{{"type", type}, {"text", item["content"]}}});
  }
  return items;
}

void createResponse(Exchange exchange) {
  auto request = readRequest(exchange);
  if (!request)
    return;
  Messages kept = request->call.messages;
  addInstructions(*request);
  auto context = exchange.context;
  std::string client = exchange.request.client;
  const bool hasLogprobs = request->call.generate.topLogprobs >= 0;
  answerChat(std::move(exchange), std::move(request->call),
             [context, client, hasLogprobs, kept = std::move(kept),
              isKept = request->isKept, conversation = request->conversation,
              input = std::move(request->input),
              echoed = std::move(request->echoed)](const ReplyFacts &facts) {
               return makeResponseWriter(
                   facts, echoed, hasLogprobs,
                   [=](const Choice &choice, const Json &response) {
                     if (isKept)
                       keep(context->settings, client, response,
                            withAnswer(kept, choice), input);
                     if (conversation.empty())
                       return;
                     Json items = newItems(input, response["id"]);
                     for (const Json &item : response["output"])
                       items.push_back(item);
                     keepItems(context->settings, client, conversation, items);
                   });
             });
}

void countResponseTokens(Exchange exchange) {
  auto request = readRequest(exchange);
  if (!request)
    return;
  addInstructions(*request);
  answerTokenCount(std::move(exchange), std::move(request->call));
}

void compactResponse(Exchange exchange) {
  exchange.fail({.status = 501,
                 .message = "this server makes no shorter form of a "
                            "conversation: ask for a summary by /v1/responses "
                            "and go on with that, as clients do where this is "
                            "not offered",
                 .code = "not_supported"});
}

void retrieveResponse(Exchange exchange) {
  if (auto stream = exchange.request.query.find("stream");
      stream != exchange.request.query.end() && stream->second == "true")
    return exchange.fail({.message = "stream is not supported here: the "
                                     "response is complete",
                          .param = "stream",
                          .code = "unsupported_parameter"});
  if (auto kept = keptResponse(exchange))
    sendJson(*exchange.answer, (*kept)["response"]);
}

void deleteResponse(Exchange exchange) {
  answerDelete(exchange, kKind, exchange.names[0], "response");
}

void listResponseInput(Exchange exchange) {
  if (auto kept = keptResponse(exchange))
    sendList(exchange, listedItems((*kept)["input"], exchange.names[0]),
             /*hasMore=*/false);
}

} // namespace moert
