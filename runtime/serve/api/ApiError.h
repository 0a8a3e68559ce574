//===- ApiError.h - Errors in the form of each interface --------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_APIERROR_H
#define MOE_RUNTIME_SERVE_API_APIERROR_H

#include "runtime/base/Status.h"
#include "runtime/serve/Exchange.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace moert {

/// The reason why a request is not answered.
struct ApiError {
  int status = 400; ///< Status code of HTTP.
  std::string message;
  /// The field that is wrong, such as "messages[2].content"; or "".
  std::string param = {};
  /// Code for programs, such as "context_length_exceeded"; or "".
  std::string code = {};
  int32_t retryAfter = 0; ///< Seconds to wait; 0: no advice.
  /// Tokens of a prompt that does not fit, and of the context; 0 for other
  /// errors.
  int32_t promptTokens = 0, contextTokens = 0;
};

/// The interface whose form errors have, which depends on the path.
enum class ErrorStyle { OpenAi, Anthropic, Ollama };

/// The error that tells a client of `status`, which is not ok.
ApiError errorOf(const Status &status, int32_t retryAfter = 0);

/// The error as an object of JSON.
nlohmann::ordered_json errorJson(ErrorStyle style, const ApiError &error);

/// Answers with the error.
void sendError(HttpAnswer &answer, ErrorStyle style, const ApiError &error,
               HttpHeaders headers = {});

/// Returns JSON as bytes, with U+FFFD for what is not UTF-8.
std::string jsonText(const nlohmann::ordered_json &json);
/// Answers with status 200.
void sendJson(HttpAnswer &answer, const nlohmann::ordered_json &json);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_APIERROR_H
