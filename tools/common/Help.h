//===- Help.h - Generates help, man pages and completions -------*- C++ -*-===//
//
// All texts are generated from the options known to the parser, which come from
// tables of options.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_COMMON_HELP_H
#define MOE_TOOLS_COMMON_HELP_H

#include "tools/common/CliFwd.h"

#include <string>

namespace moetool {

/// Returns the help of a command, or of the tool with its commands, in lines of
/// at most `width` columns.
std::string helpText(const CLI::App &app, size_t width);

/// Returns a man page (section 1, in roff) for the tool and all its commands.
std::string manPage(const CLI::App &tool);

/// Returns the tool's commands and options in Markdown, one section per
/// command.
std::string markdownReference(const CLI::App &tool);

enum class Shell { Bash, Zsh, Fish };

/// Returns a shell script that completes the tool's commands, options and
/// words.
std::string completionScript(const CLI::App &tool, Shell shell);

} // namespace moetool

#endif // MOE_TOOLS_COMMON_HELP_H
