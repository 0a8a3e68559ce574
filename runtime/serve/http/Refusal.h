//===- Refusal.h - A request that the server itself answers -----*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_REFUSAL_H
#define MOE_RUNTIME_SERVE_HTTP_REFUSAL_H

#include "runtime/serve/Exchange.h"

#include <string>
#include <string_view>

namespace moert {

/// The reason why a request does not reach the handler.
struct Refusal {
  int status = 400;
  std::string message; ///< A sentence for the user of the client.
  HttpHeaders headers = {};
};

/// The JSON that clients of the OpenAI API expect with an error's status:
/// {"error":{"message":...,"type":"invalid_request_error","param":null,
/// "code":null}}.
std::string errorBody(std::string_view message);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_REFUSAL_H
