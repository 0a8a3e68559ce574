//===- Json.h - JSON that a tool prints -------------------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_JSON_H
#define MOE_TOOLS_COMMON_JSON_H

#include "tools/common/Output.h"

#include <nlohmann/json.hpp>

namespace moetool {

/// The one document that a command with --json prints on standard output. Text
/// in it may be any bytes; JSON is UTF-8.
inline void printDocument(const nlohmann::ordered_json &document) {
  printJson(document.dump(2, ' ', false,
                          nlohmann::ordered_json::error_handler_t::replace) +
            "\n");
}

} // namespace moetool

#endif // MOE_TOOLS_COMMON_JSON_H
