//===- CommandLine.h - A request as the user would type it ------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_COMMANDLINE_H
#define MOE_COMPILER_DRIVER_COMMANDLINE_H

#include "compiler/Driver/Driver.h"

namespace moec {

/// The command that makes this request from the current folder, to paste: every
/// option that is not at its default.
std::string commandLine(const CompileRequest &request);

/// The options that shape a plan, for moert's messages (runtime/Recompile.h):
/// pairs of words for a shell. `context` is what --ctx came to; a description's
/// path is recorded as those of model files are.
moert::StatusOr<std::string> shapingOptions(const CompileRequest &request,
                                            int64_t context);

/// Where the request's plan goes.
std::string planPath(const CompileRequest &request);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_COMMANDLINE_H
