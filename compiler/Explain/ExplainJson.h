//===- ExplainJson.h - Parts of explain --json ------------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_EXPLAINJSON_H
#define MOE_COMPILER_EXPLAIN_EXPLAINJSON_H

#include "compiler/Explain/Summary.h"

#include <nlohmann/json.hpp>

namespace moec {

/// What a device holds and the budget for it, in bytes.
nlohmann::ordered_json deviceJson(const DeviceMemory &memory);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_EXPLAINJSON_H
