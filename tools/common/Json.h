//===- Json.h - Prints the JSON output of a command -------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_JSON_H
#define MOE_TOOLS_COMMON_JSON_H

#include "tools/common/Output.h"

#include <nlohmann/json.hpp>

namespace moetool {

/// Prints the only document of a command with --json on standard output. Text
/// in it may be any bytes, which are converted to UTF-8.
inline void printDocument(const nlohmann::ordered_json &document) {
  printJson(document.dump(2, ' ', false,
                          nlohmann::ordered_json::error_handler_t::replace) +
            "\n");
}

/// Fails with Usage if `what` would go to standard output because `option` is
/// "-", since the report of --json goes there.
inline moert::Status checkJsonAlone(bool json, std::string_view path,
                                    std::string_view option,
                                    std::string_view what) {
  if (!json || path != "-")
    return moert::Status::ok();
  return moert::Status(
      moert::StatusCode::Usage,
      fmt::format("--json and the {} would both go to standard output; give {} "
                  "FILE for the {}",
                  what, option, what));
}

} // namespace moetool

#endif // MOE_TOOLS_COMMON_JSON_H
