//===- ParseSize.h - Parses sizes such as "8GiB" ----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_PARSESIZE_H
#define MOE_RUNTIME_BASE_PARSESIZE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string_view>

namespace moert {

/// Parses a size with its unit: "8GiB", "1.5 MiB", "4096B". Fractions of a byte
/// are dropped. The error (Usage) shows the text.
StatusOr<int64_t> parseSize(std::string_view text);

} // namespace moert

#endif // MOE_RUNTIME_BASE_PARSESIZE_H
