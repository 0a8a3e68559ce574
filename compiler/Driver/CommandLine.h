//===- CommandLine.h - The command line for a request -----------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_COMMANDLINE_H
#define MOE_COMPILER_DRIVER_COMMANDLINE_H

#include "compiler/Driver/Driver.h"
#include "compiler/Options/OptionTable.h"
#include "runtime/base/Remedy.h"

namespace moec {

/// Calls `visit(info, member)` for every row of Options.def, in its order;
/// `member` is a pointer to the member of CompileRequest.
template <class Visit> void visitOptions(Visit visit) {
#define MOE_OPTION(field, Type, fallback, ...)                                 \
  visit(options::field, &CompileRequest::field);
#include "compiler/Options/Options.def"
}

/// Returns the value of --emit; "" for Forecast.
std::string_view nameOf(Emit emit);

// Words for option types that the driver defines (runtime/base/OptionWord.h).
std::string optionWord(const moert::OptionInfo &info, Emit emit);
std::string optionWord(const moert::OptionInfo &info,
                       const std::vector<LadderRung> &ladder);

/// Returns the command that makes this request from the current folder, with
/// every option that is not at its default.
moert::CompileCommand compileCommand(const CompileRequest &request);

/// Returns whether users can paste the command: it reads no streams.
bool canRunAgain(const CompileRequest &request);

/// Returns the options that shaped a plan (kRecorded) and are not at their
/// defaults, for the plan file. They are words for a shell, from which moert
/// makes the command that compiles the plan again (tools/common/Remedies.h).
/// Paths are recorded like those of model files; a stream, which cannot be read
/// again, is recorded as "-".
moert::StatusOr<std::string> recordedOptions(const CompileRequest &request);

/// Returns the path of the request's plan.
std::string planPath(const CompileRequest &request);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_COMMANDLINE_H
