//===- OptionTable.h - The rows of Options.def ------------------*- C++ -*-===//

#ifndef MOE_COMPILER_OPTIONS_OPTIONTABLE_H
#define MOE_COMPILER_OPTIONS_OPTIONTABLE_H

#include "runtime/base/OptionInfo.h"
#include "runtime/schema/OpTable.h"

namespace moec {

/// What Options.def says of each option, by the name of CompileRequest's
/// member.
namespace options {
using namespace moert;
#define MOE_OPTION(field, Type, fallback, ...)                                 \
  inline constexpr OptionInfo field = {__VA_ARGS__};
#include "compiler/Options/Options.def"
} // namespace options

} // namespace moec

#endif // MOE_COMPILER_OPTIONS_OPTIONTABLE_H
