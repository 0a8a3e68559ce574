#include "runtime/serve/api/Router.h"

#include "runtime/serve/api/Embeddings.h"
#include "runtime/serve/api/Rerank.h"
#include "runtime/serve/api/anthropic/Anthropic.h"
#include "runtime/serve/api/assistants/Assistants.h"
#include "runtime/serve/api/llama/LlamaServer.h"
#include "runtime/serve/api/monitor/Monitor.h"
#include "runtime/serve/api/ollama/Ollama.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/serve/api/openai/Responses.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace moert {

namespace {
struct Route {
  std::string_view method, path;
  void (*endpoint)(Exchange);

  /// The parts of a requested path that stand where this path has names;
  /// nothing if the paths differ elsewhere.
  std::optional<std::vector<std::string>>
  names(std::string_view requested) const;
};

constexpr Route kRoutes[] = {
#define MOE_ROUTE(method, path, endpoint) {method, path, endpoint},
#include "runtime/serve/api/Routes.def"
#undef MOE_ROUTE
};

std::optional<std::vector<std::string>>
Route::names(std::string_view requested) const {
  std::vector<std::string> names;
  for (std::string_view left = path; !left.empty();) {
    size_t text = std::min(left.find('{'), left.size());
    if (!requested.starts_with(left.substr(0, text)))
      return std::nullopt;
    requested.remove_prefix(text);
    left.remove_prefix(text);
    if (left.empty())
      break;
    size_t end = left == "{name}"
                     ? requested.size()
                     : std::min(requested.find('/'), requested.size());
    if (end == 0)
      return std::nullopt;
    names.emplace_back(requested.substr(0, end));
    requested.remove_prefix(end);
    left.remove_prefix(left.find('}') + 1);
  }
  if (!requested.empty())
    return std::nullopt;
  return names;
}

ErrorStyle styleOf(std::string_view path) {
  if (path.starts_with("/api/"))
    return ErrorStyle::Ollama;
  if (path.starts_with("/v1/messages"))
    return ErrorStyle::Anthropic;
  return ErrorStyle::OpenAi;
}

void route(Exchange exchange) {
  // Some clients end paths with a slash.
  std::string &path = exchange.request.path;
  if (path.size() > 1 && path.ends_with('/'))
    path.pop_back();
  // A HEAD is answered as a GET whose body the server leaves out.
  std::string method = exchange.request.method;
  if (method == "HEAD")
    method = "GET";
  std::string allowed;
  for (const Route &route : kRoutes) {
    auto names = route.names(path);
    if (!names)
      continue;
    if (route.method == method) {
      exchange.names = *std::move(names);
      route.endpoint(std::move(exchange));
      return;
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  if (allowed.empty())
    return exchange.fail(
        {.status = 404,
         .message = fmt::format("there is nothing at {}", path),
         .code = "not_found"});
  sendError(*exchange.answer, exchange.style,
            {.status = 405,
             .message = fmt::format("{} takes {}, not {}", path, allowed,
                                    exchange.request.method),
             .code = "method_not_allowed"},
            {{"Allow", allowed}});
}
} // namespace

HttpHandler makeApi(ModelHost &host, ApiSettings settings) {
  if (!settings.store) {
    auto store = ObjectStore::open("");
    if (store)
      settings.store = *std::move(store);
  }
  // Made in place: the runs have a mutex.
  std::shared_ptr<ApiContext> context(
      new ApiContext{host, std::move(settings)});
  if (context->settings.store)
    endAbandonedRuns(context->settings);
  return [context](HttpRequest request, std::shared_ptr<HttpAnswer> answer) {
    ErrorStyle style = styleOf(request.path);
    const uint64_t bytes = request.body.size();
    route({.context = context,
           .request = std::move(request),
           .answer = std::move(answer),
           .style = style,
           .deadline = Deadline(context->settings.prepareTime),
           .bodyBytes = bytes});
    // Texts and tokens of the request have gone too.
    if (bytes >= kMuchMemory)
      returnFreeMemory();
  };
}

std::string refusalBody(std::string_view path, int status,
                        std::string_view message) {
  return jsonText(errorJson(styleOf(path),
                            {.status = status,
                             .message = std::string(message),
                             .code = status == 401 ? "invalid_api_key" : ""}));
}

std::vector<std::string> apiRoutes() {
  std::vector<std::string> routes;
  for (const Route &route : kRoutes)
    routes.push_back(fmt::format("{} {}", route.method, route.path));
  return routes;
}

} // namespace moert
