#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/assistants/Assistants.h"
#include "runtime/serve/api/assistants/RunRecord.h"

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
std::optional<Json> threadOf(const Exchange &exchange) {
  return findObject(exchange, "thread", exchange.names[0]);
}

std::optional<Json> messageOf(const Exchange &exchange) {
  if (!threadOf(exchange))
    return std::nullopt;
  return findObject(exchange, "message", exchange.names[1], exchange.names[0]);
}
} // namespace

Json newThread(const Exchange &exchange, const Field &body) {
  body["tool_resources"]["code_interpreter"]["file_ids"].refuse(
      "this server keeps no files");
  body["tool_resources"]["file_search"]["vector_store_ids"].refuse(
      "this server keeps no files");
  return {{"id", newId(exchange, "thread_")},
          {"object", "thread"},
          {"created_at", secondsNow(exchange)},
          {"tool_resources", Json::object()},
          {"metadata", readMetadata(body)}};
}

Json newMessage(const Exchange &exchange, const std::string &thread,
                const Field &message) {
  message["attachments"].refuse("this server keeps no files");
  Json content = Json::array();
  Field parts = message["content"].required();
  Content said = readContent(parts);
  if (!said.unread.place.empty())
    parts.fail("has a part that is no text, and this server keeps no files",
               "unsupported_parameter");
  content.push_back(
      {{"type", "text"},
       {"text",
        {{"value", std::move(said.text)}, {"annotations", Json::array()}}}});
  int64_t now = secondsNow(exchange);
  return {{"id", newId(exchange, "msg_")},
          {"object", "thread.message"},
          {"created_at", now},
          {"thread_id", thread},
          {"status", "completed"},
          {"incomplete_details", nullptr},
          {"completed_at", now},
          {"incomplete_at", nullptr},
          {"role",
           message["role"].required().word({"user", "assistant"}).value_or("")},
          {"content", std::move(content)},
          {"assistant_id", nullptr},
          {"run_id", nullptr},
          {"attachments", Json::array()},
          {"metadata", readMetadata(message)}};
}

StoredObject storedMessage(const std::string &owner, const Json &message) {
  StoredObject object =
      storedObject("message", owner, message, message["thread_id"]);
  if (message["run_id"].is_string())
    object.tag = message["run_id"];
  return object;
}

void addMessages(const Exchange &exchange, const std::string &thread,
                 const Field &list, std::vector<StoredObject> &objects) {
  for (const Field &item : list.list(kMostMessages))
    if (item.object())
      objects.push_back(storedMessage(exchange.request.client,
                                      newMessage(exchange, thread, item)));
}

void createThread(Exchange exchange) {
  std::optional<Json> body = bodyObject(exchange);
  if (!body)
    return;
  Problem problem;
  Field field(*body, problem);
  Json thread = newThread(exchange, field);
  std::vector<StoredObject> objects = {
      storedObject("thread", exchange.request.client, thread)};
  addMessages(exchange, thread["id"], field["messages"], objects);
  if (problem.error)
    return exchange.fail(*problem.error);
  if (addObjects(exchange, objects))
    sendJson(*exchange.answer, thread);
}

void retrieveThread(Exchange exchange) {
  if (auto thread = threadOf(exchange))
    sendJson(*exchange.answer, *thread);
}

void modifyThread(Exchange exchange) {
  if (auto thread = threadOf(exchange))
    answerMetadataChange(exchange, *std::move(thread));
}

void deleteThread(Exchange exchange) {
  std::optional<Json> run;
  if (threadOf(exchange))
    run = activeRun(exchange, exchange.names[0]);
  if (!run)
    return;
  if (run->is_object())
    if (auto record = exchange.context->runs.find((*run)["id"]))
      record->cancel();
  answerDelete(exchange, "thread", exchange.names[0], "thread");
}

void createThreadMessage(Exchange exchange) {
  const std::string &thread = exchange.names[0];
  if (!threadOf(exchange) || !isFree(exchange, thread))
    return;
  std::optional<Json> body = bodyObject(exchange);
  if (!body)
    return;
  Problem problem;
  Json message = newMessage(exchange, thread, Field(*body, problem));
  if (problem.error)
    return exchange.fail(*problem.error);
  if (addObjects(exchange, {storedMessage(exchange.request.client, message)}))
    sendJson(*exchange.answer, message);
}

void listThreadMessages(Exchange exchange) {
  if (!threadOf(exchange))
    return;
  StoreQuery query{.kind = "message", .parent = exchange.names[0]};
  if (auto run = exchange.request.query.find("run_id");
      run != exchange.request.query.end())
    query.tag = run->second;
  answerList(exchange, std::move(query));
}

void retrieveThreadMessage(Exchange exchange) {
  if (auto message = messageOf(exchange))
    sendJson(*exchange.answer, *message);
}

void modifyThreadMessage(Exchange exchange) {
  if (auto message = messageOf(exchange))
    answerMetadataChange(exchange, *std::move(message));
}

void deleteThreadMessage(Exchange exchange) {
  if (threadOf(exchange))
    answerDelete(exchange, "message", exchange.names[1], "thread.message",
                 exchange.names[0]);
}

} // namespace moert
