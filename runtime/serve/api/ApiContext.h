//===- ApiContext.h - What endpoints have in common -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_APICONTEXT_H
#define MOE_RUNTIME_SERVE_API_APICONTEXT_H

#include "runtime/base/Deadline.h"
#include "runtime/base/FreeMemory.h"
#include "runtime/serve/Exchange.h"
#include "runtime/serve/api/ApiError.h"
#include "runtime/serve/api/ApiSettings.h"
#include "runtime/serve/api/Backend.h"
#include "runtime/serve/api/ChatCall.h"
#include "runtime/serve/api/Fields.h"
#include "runtime/serve/api/ReplyWriter.h"
#include "runtime/serve/api/Usage.h"
#include "runtime/serve/api/assistants/ActiveRuns.h"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace moert {

/// Lines that the log has already, so that each is written once.
class LogLines {
public:
  /// Whether the line is a new one. After many of them none is.
  bool add(const std::string &line) {
    constexpr size_t most = 1024;
    std::lock_guard lock(mutex_);
    return lines_.size() < most && lines_.insert(line).second;
  }

private:
  std::mutex mutex_;
  std::set<std::string> lines_;
};

/// Data that all requests share. It lives as long as one of them.
struct ApiContext {
  ModelHost &host;
  ApiSettings settings;
  ActiveRuns runs = {};
  LogLines lines = {};
  UsageBook usage = {};

  /// ApiSettings::later.
  void later(const std::string &client, uint64_t bytes,
             std::function<void()> job) const;
};

/// One request on its way through an endpoint.
struct Exchange {
  std::shared_ptr<ApiContext> context;
  HttpRequest request;
  std::shared_ptr<HttpAnswer> answer;
  ErrorStyle style;
  /// Parts of the path for which the route has names, in their order.
  std::vector<std::string> names = {};
  /// Until when the request may be prepared: ApiSettings::prepareTime.
  Deadline deadline = {};
  /// Bytes of the body, which is freed when it has been parsed.
  uint64_t bodyBytes = 0;

  const ApiSettings &settings() const { return context->settings; }
  void fail(const ApiError &error) const { sendError(*answer, style, error); }
};

/// Says whose share of the engine the call uses: that of the client, or without
/// keys of the user whom it names. A client with a key does not get ahead of
/// others.
void setClient(const Exchange &exchange, GenerateCall &call);

/// Adds a line to the log, unless it is there.
void logOnce(const Exchange &exchange, const std::string &what);
/// Says in the log what of the request has no effect, a line each: fields that
/// nobody asked for, and what readers noted.
void logSkipped(const Exchange &exchange, const nlohmann::ordered_json &body,
                const Problem &problem);

/// The body of a request as JSON.
class BodyJson {
public:
  using Json = nlohmann::ordered_json;

  /// Takes the body from the request. Sends an error if it is no JSON.
  explicit BodyJson(Exchange &exchange);
  BodyJson(const BodyJson &) = delete;
  BodyJson &operator=(const BodyJson &) = delete;
  /// A large body leaves no memory behind.
  ~BodyJson();

  explicit operator bool() const { return json_.has_value(); }
  Json &operator*() { return *json_; }

private:
  std::optional<Json> json_;
  const uint64_t bytes_;
};

/// The name by which the host knows a model that is called `name`; nothing if
/// there is none of this name, which Ollama's clients write with a tag.
std::optional<std::string> modelNamed(const Exchange &exchange,
                                      const std::string &name);

/// The same for the model that a request names: one that serves any name counts
/// as every model. Nothing after an error has been sent.
std::optional<std::string> knownModel(const Exchange &exchange,
                                      const std::string &name);

/// Calls `then` once with the model of this name, now or later, or answers with
/// an error. The time for which a model is loaded does not count
/// (Exchange::deadline).
void withModel(
    Exchange exchange, const std::string &name,
    std::function<void(const Exchange &, std::shared_ptr<Backend>)> then);

/// Makes the writer of a reply.
using MakeWriter =
    std::function<std::unique_ptr<ReplyWriter>(const ReplyFacts &)>;

/// Generates what the call asks for and answers by the writer.
void answerChat(Exchange exchange, ChatCall call, MakeWriter writer);

/// Answers with what `write` says of the prompt of a conversation, which is not
/// evaluated.
void answerPrompt(Exchange exchange, ChatCall call,
                  nlohmann::ordered_json (*write)(const ChatPrompt &));

/// Answers with the number of tokens of a conversation.
void answerTokenCount(Exchange exchange, ChatCall call);

/// Parses the body, which must be an object, and hands it to `read(body,
/// call)`. Answers with the error if either finds one, and then returns
/// nothing.
template <class Call, class Read>
std::optional<Call> readBody(Exchange &exchange, Read read) {
  BodyJson json(exchange);
  if (!json)
    return std::nullopt;
  Problem problem{.deadline = exchange.deadline};
  Field body(*json, problem);
  Call call;
  if (body.object())
    read(body, call);
  if (Status status = exchange.deadline.check("reading the request");
      !status.isOk() && !problem.error)
    problem.error = errorOf(status);
  if (problem.error) {
    exchange.fail(*problem.error);
    return std::nullopt;
  }
  logSkipped(exchange, *json, problem);
  return call;
}

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_APICONTEXT_H
