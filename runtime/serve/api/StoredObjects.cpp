#include "runtime/serve/api/StoredObjects.h"

#include "runtime/base/Text.h"
#include "runtime/serve/api/Prepare.h"

#include <charconv>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
constexpr size_t kMostMetadata = 16, kMostMetadataKey = 64,
                 kMostMetadataValue = 512;
constexpr int32_t kMostListed = 100;

ObjectStore *storeOf(const Exchange &exchange) {
  ObjectStore *store = exchange.settings().store.get();
  if (!store)
    exchange.fail({.status = 500,
                   .message = "this server could not make its database in "
                              "memory: restart it with --database"});
  return store;
}

/// The value of a status or a failure, which the client has then been told.
template <class T>
std::optional<T> told(const Exchange &exchange, StatusOr<T> value) {
  if (value)
    return *std::move(value);
  exchange.fail(storeError(value.status()));
  return std::nullopt;
}

/// Reads the limits of a list from the query of the request.
bool readList(const Exchange &exchange, StoreQuery &query) {
  for (const auto &[name, value] : exchange.request.query) {
    if (name == "limit") {
      const char *end = value.data() + value.size();
      auto [last, error] = std::from_chars(value.data(), end, query.limit);
      if (error == std::errc() && last == end && query.limit >= 1 &&
          query.limit <= kMostListed)
        continue;
      exchange.fail({.message = fmt::format("limit must be an integer from 1 "
                                            "to {}, but is {}",
                                            kMostListed, moert::quoted(value)),
                     .param = "limit"});
      return false;
    }
    if (name == "order") {
      query.newestFirst = value == "desc";
      if (value == "asc" || value == "desc")
        continue;
      exchange.fail({.message = fmt::format("order must be \"asc\" or "
                                            "\"desc\", but is {}",
                                            moert::quoted(value)),
                     .param = "order"});
      return false;
    }
    if (name == "after")
      query.after = value;
    else if (name == "before")
      query.before = value;
  }
  return true;
}
} // namespace

StoredObject storedObject(std::string kind, const std::string &owner,
                          const Json &json, std::string parent,
                          std::string status) {
  return {.id = json["id"],
          .kind = std::move(kind),
          .owner = owner,
          .parent = std::move(parent),
          .status = std::move(status),
          .tag = {},
          .body = jsonText(json),
          .created = json["created_at"]};
}

ApiError storeError(const Status &status) {
  ApiError error = errorOf(status);
  if (status.code() == StatusCode::DoesNotFit) {
    // A client would repeat the request after other statuses, without success.
    error.status = 403;
    error.code = "storage_full";
  } else if (status.code() != StatusCode::Usage) {
    error.status = 500;
  }
  return error;
}

std::optional<Json> bodyObject(Exchange &exchange) {
  if (exchange.request.body.empty())
    return Json::object();
  BodyJson json(exchange);
  if (!json)
    return std::nullopt;
  if ((*json).is_object())
    return std::move(*json);
  exchange.fail({.message = "the body must be an object"});
  return std::nullopt;
}

std::optional<Json> findObject(const Exchange &exchange,
                               const std::string &kind, const std::string &id,
                               const std::string &parent) {
  ObjectStore *store = storeOf(exchange);
  if (!store)
    return std::nullopt;
  auto found = told(exchange, store->find(kind, id, exchange.request.client));
  if (!found)
    return std::nullopt;
  if (*found && (parent.empty() || (*found)->parent == parent))
    return Json::parse((*found)->body);
  exchange.fail(
      {.status = 404,
       .message = fmt::format("there is no {} {}", kind, moert::quoted(id)),
       .code = "not_found"});
  return std::nullopt;
}

bool addObjects(const Exchange &exchange,
                const std::vector<StoredObject> &objects) {
  ObjectStore *store = storeOf(exchange);
  if (!store)
    return false;
  store->tidy();
  Status added = store->add(objects);
  if (!added)
    exchange.fail(storeError(added));
  return added.isOk();
}

bool changeObject(const Exchange &exchange, const Json &json,
                  const std::string &status) {
  ObjectStore *store = storeOf(exchange);
  if (!store)
    return false;
  store->tidy();
  auto changed = told(exchange, store->replace(std::string(json["id"]), status,
                                               status, jsonText(json)));
  if (changed && !*changed)
    exchange.fail({.status = 409,
                   .message = "the object was changed or deleted meanwhile",
                   .code = "conflict"});
  return changed.value_or(false);
}

void sendList(const Exchange &exchange, Json items, bool hasMore) {
  Json first = nullptr, last = nullptr;
  if (!items.empty()) {
    first = items.front()["id"];
    last = items.back()["id"];
  }
  sendJson(*exchange.answer, {{"object", "list"},
                              {"data", std::move(items)},
                              {"first_id", std::move(first)},
                              {"last_id", std::move(last)},
                              {"has_more", hasMore}});
}

void answerList(const Exchange &exchange, StoreQuery query) {
  query.owner = exchange.request.client;
  ObjectStore *store = storeOf(exchange);
  if (!store || !readList(exchange, query))
    return;
  auto page = told(exchange, store->list(query));
  if (!page)
    return;
  Json items = Json::array();
  for (const StoredObject &object : page->objects)
    items.push_back(Json::parse(object.body));
  sendList(exchange, std::move(items), page->hasMore);
}

void answerDelete(const Exchange &exchange, const std::string &kind,
                  const std::string &id, const std::string &name,
                  const std::string &parent) {
  if (!findObject(exchange, kind, id, parent))
    return;
  auto removed = told(exchange, exchange.settings().store->remove(
                                    kind, id, exchange.request.client));
  if (removed)
    sendJson(*exchange.answer,
             {{"id", id}, {"object", name + ".deleted"}, {"deleted", true}});
}

Json readMetadata(const Field &body) {
  Json metadata = Json::object();
  Field field = body["metadata"];
  auto members = field.members();
  if (members.size() > kMostMetadata)
    field.fail(fmt::format("must have {} pairs at most", kMostMetadata));
  for (const auto &[name, value] : members) {
    std::string text = value.text().value_or("");
    if (name.size() > kMostMetadataKey || text.size() > kMostMetadataValue)
      value.fail(fmt::format("is too long: names have {} bytes at most, "
                             "values {}",
                             kMostMetadataKey, kMostMetadataValue));
    metadata[name] = std::move(text);
  }
  return metadata;
}

std::optional<Json> metadataOf(const Exchange &exchange, const Json &body) {
  Problem problem;
  Json metadata = readMetadata(Field(body, problem));
  if (!problem.error)
    return metadata;
  exchange.fail(*problem.error);
  return std::nullopt;
}

void answerMetadataChange(Exchange &exchange, Json json,
                          const std::string &status) {
  std::optional<Json> body = bodyObject(exchange);
  std::optional<Json> metadata =
      body ? metadataOf(exchange, *body) : std::nullopt;
  if (!metadata)
    return;
  json["metadata"] = *std::move(metadata);
  if (changeObject(exchange, json, status))
    sendJson(*exchange.answer, json);
}

std::string newId(const Exchange &exchange, std::string_view prefix) {
  return std::string(prefix) + randomId(exchange.settings()).substr(0, 24);
}

int64_t secondsNow(const Exchange &exchange) {
  return secondsNow(exchange.settings());
}

} // namespace moert
