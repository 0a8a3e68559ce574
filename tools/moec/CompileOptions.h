//===- CompileOptions.h - Parses the options of moec compile ----*- C++ -*-===//

#ifndef MOE_TOOLS_MOEC_COMPILEOPTIONS_H
#define MOE_TOOLS_MOEC_COMPILEOPTIONS_H

#include "compiler/Driver/CommandLine.h"
#include "tools/common/CliFwd.h"

#include <utility>
#include <vector>

namespace moec {

/// The options of a command, each with its row in the table.
using OptionList =
    std::vector<std::pair<const CLI::Option *, moert::OptionInfo>>;

/// Adds to a command the options in Options.def that have one of the bits
/// `use`, or all options if `use` is 0; parsing fills `request`.
OptionList addCompileOptions(CLI::App &command, CompileRequest &request,
                             unsigned use = 0);

} // namespace moec

#endif // MOE_TOOLS_MOEC_COMPILEOPTIONS_H
