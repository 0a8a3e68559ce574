#include "runtime/serve/api/Router.h"

#include "runtime/serve/api/Embeddings.h"
#include "runtime/serve/api/anthropic/Anthropic.h"
#include "runtime/serve/api/llama/LlamaServer.h"
#include "runtime/serve/api/monitor/Monitor.h"
#include "runtime/serve/api/ollama/Ollama.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/serve/api/openai/Responses.h"

#include <fmt/format.h>

namespace moert {

namespace {
struct Route {
  std::string_view method, path;
  void (*endpoint)(Exchange);

  bool hasName() const { return path.ends_with("/{name}"); }
  /// The part of the path before the name.
  std::string_view prefix() const {
    return hasName() ? path.substr(0, path.rfind('{')) : path;
  }
  bool fits(std::string_view requested) const {
    return hasName() ? requested.starts_with(prefix()) &&
                           requested.size() > prefix().size()
                     : requested == path;
  }
};

constexpr Route kRoutes[] = {
#define MOE_ROUTE(method, path, endpoint) {method, path, endpoint},
#include "runtime/serve/api/Routes.def"
#undef MOE_ROUTE
};

ErrorStyle styleOf(std::string_view path) {
  if (path.starts_with("/api/"))
    return ErrorStyle::Ollama;
  if (path.starts_with("/v1/messages"))
    return ErrorStyle::Anthropic;
  return ErrorStyle::OpenAi;
}

void route(Exchange exchange) {
  const std::string &path = exchange.request.path;
  // A HEAD is answered as a GET whose body the server leaves out.
  std::string method = exchange.request.method;
  if (method == "HEAD")
    method = "GET";
  std::string allowed;
  for (const Route &route : kRoutes) {
    if (!route.fits(path))
      continue;
    if (route.method == method) {
      if (route.hasName())
        exchange.rest = path.substr(route.prefix().size());
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
  size_t entries = settings.keptResponses, bytes = settings.keptResponseBytes;
  // Made in place: a store has a mutex.
  std::shared_ptr<ApiContext> context(
      new ApiContext{host, std::move(settings), ResponseStore(entries, bytes)});
  return [context](HttpRequest request, std::shared_ptr<HttpAnswer> answer) {
    ErrorStyle style = styleOf(request.path);
    route({context, std::move(request), std::move(answer), style, {}});
  };
}

std::vector<std::string> apiRoutes() {
  std::vector<std::string> routes;
  for (const Route &route : kRoutes)
    routes.push_back(fmt::format("{} {}", route.method, route.path));
  return routes;
}

} // namespace moert
