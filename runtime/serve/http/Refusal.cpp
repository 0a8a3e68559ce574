#include "runtime/serve/http/Refusal.h"

#include <nlohmann/json.hpp>

namespace moert {

std::string errorBody(std::string_view message) {
  using Json = nlohmann::ordered_json;
  Json error = {{"message", message},
                {"type", "invalid_request_error"},
                {"param", nullptr},
                {"code", nullptr}};
  return Json{{"error", std::move(error)}}.dump(-1, ' ', false,
                                                Json::error_handler_t::replace);
}

} // namespace moert
