#include "runtime/serve/api/ApiError.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
constexpr std::string_view kJsonType = "application/json";

int httpStatusOf(StatusCode code) {
  switch (code) {
  case StatusCode::Usage:
  case StatusCode::InvalidFile:
  case StatusCode::Unsupported:
    return 400;
  case StatusCode::DoesNotFit:
  case StatusCode::Cancelled:
    return 503;
  default:
    return 500;
  }
}

/// The names that each interface has for the kinds of errors.
struct TypeNames {
  int status;
  const char *openAi, *anthropic;
};
constexpr TypeNames kTypes[] = {
    {400, "invalid_request_error", "invalid_request_error"},
    {401, "authentication_error", "authentication_error"},
    {403, "permission_error", "permission_error"},
    {404, "invalid_request_error", "not_found_error"},
    {405, "invalid_request_error", "invalid_request_error"},
    {413, "invalid_request_error", "request_too_large"},
    {422, "invalid_response_error", "api_error"},
    {429, "rate_limit_error", "rate_limit_error"},
    {501, "not_supported_error", "api_error"},
    {503, "overloaded_error", "overloaded_error"},
};
constexpr TypeNames kOtherType = {500, "server_error", "api_error"};

const TypeNames &typeOf(int status) {
  for (const TypeNames &type : kTypes)
    if (type.status == status)
      return type;
  return kOtherType;
}

Json nullIfEmpty(const std::string &text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
} // namespace

ApiError errorOf(const Status &status, int32_t retryAfter) {
  int code = httpStatusOf(status.code());
  return {.status = code,
          .message = status.message(),
          .retryAfter = code == 503 ? retryAfter : 0};
}

Json errorJson(ErrorStyle style, const ApiError &error) {
  switch (style) {
  case ErrorStyle::OpenAi: {
    Json json = {{"message", error.message},
                 {"type", typeOf(error.status).openAi},
                 {"param", nullIfEmpty(error.param)},
                 {"code", nullIfEmpty(error.code)}};
    // Clients of llama-server read these fields.
    if (error.contextTokens > 0) {
      json["n_prompt_tokens"] = error.promptTokens;
      json["n_ctx"] = error.contextTokens;
    }
    return {{"error", std::move(json)}};
  }
  case ErrorStyle::Anthropic: {
    std::string message = error.message;
    // Clients of Anthropic's interface know by these words that they have to
    // shorten a conversation.
    if (error.contextTokens > 0)
      message =
          fmt::format("prompt is too long: {} tokens > {} maximum; {}",
                      error.promptTokens, error.contextTokens, error.message);
    return {{"type", "error"},
            {"error",
             {{"type", typeOf(error.status).anthropic},
              {"message", std::move(message)}}}};
  }
  case ErrorStyle::Ollama:
    break;
  }
  return {{"error", error.message}};
}

void sendError(HttpAnswer &answer, ErrorStyle style, const ApiError &error,
               HttpHeaders headers) {
  if (error.retryAfter > 0)
    headers.emplace_back("Retry-After", std::to_string(error.retryAfter));
  // Anthropic's own server says 529 where it is overloaded. Its clients repeat
  // a request after 503 too, and proxies send that one to another server.
  answer.send(error.status, kJsonType, jsonText(errorJson(style, error)),
              std::move(headers));
}

std::string jsonText(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void sendJson(HttpAnswer &answer, const Json &json) {
  answer.send(200, kJsonType, jsonText(json));
}

} // namespace moert
