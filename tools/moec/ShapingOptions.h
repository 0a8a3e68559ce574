//===- ShapingOptions.h - What decides what a plan is like ------*- C++ -*-===//

#ifndef MOE_TOOLS_MOEC_SHAPINGOPTIONS_H
#define MOE_TOOLS_MOEC_SHAPINGOPTIONS_H

#include "compiler/Driver/Driver.h"

#include <CLI/CLI.hpp>
#include <vector>

namespace moec {

/// Adds the options of limits, of the model and of decisions, whose values go
/// to `request`, which must live as long as the command. Of --place rules in
/// files are not read yet (readRules).
std::vector<CLI::Option *> addShapingOptions(CLI::App &command,
                                             CompileRequest &request);

} // namespace moec

#endif // MOE_TOOLS_MOEC_SHAPINGOPTIONS_H
