//===- CommandLine.h - A request as the user would type it ------*- C++ -*-===//

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

/// The word of --emit; "" for Forecast.
std::string_view nameOf(Emit emit);

// The words of options whose types are the driver's own (runtime/base/
// OptionWord.h).
std::string optionWord(const moert::OptionInfo &info, Emit emit);
std::string optionWord(const moert::OptionInfo &info,
                       const std::vector<LadderRung> &ladder);

/// The command that makes this request from the current folder: every option
/// that is not at its default.
moert::CompileCommand compileCommand(const CompileRequest &request);

/// Whether the command can be pasted: no input of it is a stream.
bool canRunAgain(const CompileRequest &request);

/// The options that shaped a plan (kRecorded) and are not at their defaults,
/// for the plan file: words for a shell, from which moert makes the command
/// that compiles the plan again (tools/common/Remedies.h). Paths are recorded
/// as those of model files are; a stream, which cannot be read again, as "-".
moert::StatusOr<std::string> recordedOptions(const CompileRequest &request);

/// Where the request's plan goes.
std::string planPath(const CompileRequest &request);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_COMMANDLINE_H
