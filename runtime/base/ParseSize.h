//===- ParseSize.h - "8GiB" as a number -------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_PARSESIZE_H
#define MOE_RUNTIME_BASE_PARSESIZE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string_view>

namespace moert {

/// The bytes of a size with its unit: "8GiB", "1.5 MiB", "4096B". What a
/// fraction leaves of a byte is dropped. The failure (Usage) shows the text.
StatusOr<int64_t> parseSize(std::string_view text);

} // namespace moert

#endif // MOE_RUNTIME_BASE_PARSESIZE_H
