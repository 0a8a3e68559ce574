#include "runtime/chat/Messages.h"

#include "runtime/base/JsonPlace.h"

#include <fmt/format.h>
#include <functional>
#include <optional>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
constexpr const char *kExpected = "; expected a JSON list of messages, as "
                                  "[{\"role\": \"user\", \"content\": "
                                  "\"Hello\"}]";

/// The first error in `json`, and the index of the message that has it, if one
/// does.
struct Fault {
  const char *what;
  /// Whether the error is in "messages", not in the whole text.
  bool isOfList = false;
  std::optional<size_t> message = {};
};

std::optional<Fault> faultOf(const Json &json) {
  bool isObject = json.is_object() && json.contains("messages");
  if (!json.is_array() && !isObject)
    return Fault{"has no messages"};
  const Json &list = isObject ? json["messages"] : json;
  if (!list.is_array())
    return Fault{"has messages that are not a list", true};
  for (size_t i = 0; i < list.size(); ++i)
    if (!list[i].is_object() || !list[i].contains("role") ||
        !list[i]["role"].is_string())
      return Fault{"has a message without a role", true, i};
  return std::nullopt;
}

Json variablesOf(Json json) {
  if (json.is_array())
    return {{"messages", std::move(json)}};
  return json;
}

/// Replaces bytes that are not UTF-8, because nlohmann cannot write such
/// strings.
std::string utf8(std::string_view text) {
  Json json = std::string(text);
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}
} // namespace

StatusOr<Messages> Messages::parse(std::string_view text,
                                   std::string_view file) {
  MOE_ASSIGN_OR_RETURN(Json json,
                       parseJson(file, text, kMostConversationNesting));
  if (std::optional<Fault> fault = faultOf(json)) {
    JsonPlace place(file, text);
    if (fault->isOfList && json.is_object())
      place = place / "messages";
    if (fault->message)
      place = place / *fault->message;
    return place.error(std::string(fault->what) + kExpected);
  }
  Messages result;
  result.variables_ = variablesOf(std::move(json));
  return result;
}

StatusOr<Messages> Messages::fromJson(Json json) {
  if (std::optional<Fault> fault = faultOf(json))
    return Status(StatusCode::Usage,
                  fault->message
                      ? fmt::format("messages[{}]: {}{}", *fault->message,
                                    fault->what, kExpected)
                      : fmt::format("{}{}", fault->what, kExpected));
  Messages result;
  result.variables_ = variablesOf(std::move(json));
  return result;
}

void Messages::add(std::string_view role, std::string_view content,
                   std::string_view reasoning) {
  Json message = {{"role", utf8(role)}, {"content", utf8(content)}};
  // Templates use one of these two names.
  if (!reasoning.empty())
    message["reasoning_content"] = message["thinking"] = utf8(reasoning);
  list().push_back(std::move(message));
}

void Messages::reset() {
  Json kept = Json::array();
  if (!list().empty() && list()[0]["role"] == "system")
    kept.push_back(list()[0]);
  list() = std::move(kept);
}

void Messages::setSystem(std::string_view text) {
  bool has = !list().empty() && list()[0]["role"] == "system";
  Json message = {{"role", "system"}, {"content", utf8(text)}};
  if (has)
    list()[0] = std::move(message);
  else
    list().insert(list().begin(), std::move(message));
}

std::string Messages::lastRole() const {
  return list().empty() ? "" : list().back()["role"].get<std::string>();
}

} // namespace moert
