//===- Options.h - The rows of Options.def ----------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_OPTIONS_H
#define MOE_TOOLS_MOERT_OPTIONS_H

#include "tools/common/Options.h"

namespace moert {

/// Bounds of options: far above useful values, and sums of two do not overflow.
inline constexpr int32_t kMostTokens = 1 << 24, kMostThreads = 1 << 20;

namespace rows {
#define MOE_ROW(name, ...) inline constexpr OptionInfo name = {__VA_ARGS__};
#include "tools/moert/Options.def"
} // namespace rows

} // namespace moert

#endif // MOE_TOOLS_MOERT_OPTIONS_H
