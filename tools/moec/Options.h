//===- Options.h - The rows of Options.def ----------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOEC_OPTIONS_H
#define MOE_TOOLS_MOEC_OPTIONS_H

#include "tools/common/Options.h"

namespace moec::rows {
using namespace moert;
#define MOE_ROW(name, ...) inline constexpr OptionInfo name = {__VA_ARGS__};
#include "tools/moec/Options.def"
} // namespace moec::rows

#endif // MOE_TOOLS_MOEC_OPTIONS_H
