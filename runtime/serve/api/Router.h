//===- Router.h - Which endpoint a request is for ---------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_ROUTER_H
#define MOE_RUNTIME_SERVE_API_ROUTER_H

#include "runtime/serve/Exchange.h"
#include "runtime/serve/api/ApiSettings.h"
#include "runtime/serve/api/Backend.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The handler of all interfaces: OpenAI's, Anthropic's, Ollama's,
/// llama-server's, and what a monitor asks. `host` must outlive it and all
/// answers that have begun. A request for an unknown path gets 404, for another
/// method 405; their JSON is what clients of the path's interface expect.
HttpHandler makeApi(ModelHost &host, ApiSettings settings = {});

/// The JSON of an error with which a server refuses a request to this path
/// before it reaches the handler, as clients of the path's interface expect it.
/// For HttpSettings::errorBody.
std::string refusalBody(std::string_view path, int status,
                        std::string_view message);

/// Every path of makeApi() with its method: "POST /v1/chat/completions". Names
/// are in braces.
std::vector<std::string> apiRoutes();

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_ROUTER_H
