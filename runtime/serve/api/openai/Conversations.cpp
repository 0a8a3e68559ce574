// Conversations that the server keeps: their items are those of /v1/responses.
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/StoredObjects.h"
#include "runtime/serve/api/openai/Responses.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
constexpr const char *kKind = "conversation";
constexpr const char *kItem = "conversation_item";

std::optional<Json> conversationOf(const Exchange &exchange) {
  return findObject(exchange, kKind, exchange.names[0]);
}

StoredObject storedItem(const ApiSettings &settings, const std::string &client,
                        const std::string &conversation, const Json &item) {
  return {.id = item["id"],
          .kind = kItem,
          .owner = client,
          .parent = conversation,
          .body = jsonText(item),
          .created = secondsNow(settings)};
}

/// The items of a body, checked as those of a request, with ids of their own.
std::optional<Json> itemsOf(const Exchange &exchange, const Json &body) {
  Json items = Json::array();
  if (!body.contains("items") || body["items"].is_null())
    return items;
  Problem problem;
  Field field(body, problem);
  ChatCall call;
  readResponseItems(field["items"], call);
  if (problem.error) {
    exchange.fail(*problem.error);
    return std::nullopt;
  }
  return newItems(body["items"], randomId(exchange.settings()));
}

bool addItems(const Exchange &exchange, const std::string &conversation,
              const Json &items, std::vector<StoredObject> objects = {}) {
  for (const Json &item : items)
    objects.push_back(storedItem(exchange.settings(), exchange.request.client,
                                 conversation, item));
  return addObjects(exchange, objects);
}
} // namespace

void createConversation(Exchange exchange) {
  std::optional<Json> body = bodyObject(exchange);
  std::optional<Json> metadata =
      body ? metadataOf(exchange, *body) : std::nullopt;
  if (!metadata)
    return;
  std::optional<Json> items = itemsOf(exchange, *body);
  if (!items)
    return;
  Json json = {{"id", newId(exchange, "conv_")},
               {"object", kKind},
               {"created_at", secondsNow(exchange)},
               {"metadata", *std::move(metadata)}};
  if (addItems(exchange, json["id"], *items,
               {storedObject(kKind, exchange.request.client, json)}))
    sendJson(*exchange.answer, json);
}

void retrieveConversation(Exchange exchange) {
  if (auto conversation = conversationOf(exchange))
    sendJson(*exchange.answer, *conversation);
}

void modifyConversation(Exchange exchange) {
  if (auto conversation = conversationOf(exchange))
    answerMetadataChange(exchange, *std::move(conversation));
}

void deleteConversation(Exchange exchange) {
  answerDelete(exchange, kKind, exchange.names[0], kKind);
}

void addConversationItems(Exchange exchange) {
  if (!conversationOf(exchange))
    return;
  std::optional<Json> body = bodyObject(exchange);
  if (!body)
    return;
  std::optional<Json> items = itemsOf(exchange, *body);
  if (items && addItems(exchange, exchange.names[0], *items))
    sendList(exchange, *std::move(items), /*hasMore=*/false);
}

void listConversationItems(Exchange exchange) {
  if (conversationOf(exchange))
    answerList(exchange, {.kind = kItem, .parent = exchange.names[0]});
}

void retrieveConversationItem(Exchange exchange) {
  if (auto item =
          findObject(exchange, kItem, exchange.names[1], exchange.names[0]))
    sendJson(*exchange.answer, *item);
}

void deleteConversationItem(Exchange exchange) {
  auto conversation = conversationOf(exchange);
  if (!conversation ||
      !findObject(exchange, kItem, exchange.names[1], exchange.names[0]))
    return;
  auto removed = exchange.settings().store->remove(kItem, exchange.names[1],
                                                   exchange.request.client);
  if (!removed)
    return exchange.fail(storeError(removed.status()));
  sendJson(*exchange.answer, *conversation);
}

std::optional<Json> conversationItems(const Exchange &exchange,
                                      const std::string &conversation) {
  if (!findObject(exchange, kKind, conversation))
    return std::nullopt;
  auto page =
      exchange.settings().store->list({.kind = kItem,
                                       .owner = exchange.request.client,
                                       .parent = conversation,
                                       .newestFirst = false,
                                       .limit = int32_t(kMostMessages)});
  if (!page) {
    exchange.fail(storeError(page.status()));
    return std::nullopt;
  }
  Json items = Json::array();
  for (const StoredObject &object : page->objects)
    items.push_back(Json::parse(object.body));
  return items;
}

void keepItems(const ApiSettings &settings, const std::string &client,
               const std::string &conversation, const Json &items) {
  std::vector<StoredObject> objects;
  for (const Json &item : items)
    objects.push_back(storedItem(settings, client, conversation, item));
  if (settings.store)
    (void)settings.store->add(objects);
}

} // namespace moert
