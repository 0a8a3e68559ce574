//===- CompileOptions.h - Parsers of the rows of Options.def ----*- C++ -*-===//

#ifndef MOE_TOOLS_MOEC_COMPILEOPTIONS_H
#define MOE_TOOLS_MOEC_COMPILEOPTIONS_H

#include "compiler/Driver/CommandLine.h"

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

namespace moec {

/// The options of a command, each with the row that it was made from.
using OptionList =
    std::vector<std::pair<const CLI::Option *, moert::OptionInfo>>;

/// Adds the options of Options.def that have one of the bits `use`, or all for
/// 0, to a command; parsing fills `request`.
OptionList addCompileOptions(CLI::App &command, CompileRequest &request,
                             unsigned use = 0);

} // namespace moec

#endif // MOE_TOOLS_MOEC_COMPILEOPTIONS_H
