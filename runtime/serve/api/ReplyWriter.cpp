#include "runtime/serve/api/ReplyWriter.h"

#include <fmt/format.h>

namespace moert {

std::string sseEvent(const nlohmann::ordered_json &data,
                     std::string_view event) {
  std::string name = event.empty() ? "" : fmt::format("event: {}\n", event);
  return fmt::format("{}data: {}\n\n", name, jsonText(data));
}

} // namespace moert
