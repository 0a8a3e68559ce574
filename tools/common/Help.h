//===- Help.h - Help, man pages, completions and the reference --*- C++ -*-===//
//
// All texts are generated from the options that the parser knows, which come
// from the rows of the tables of options.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_COMMON_HELP_H
#define MOE_TOOLS_COMMON_HELP_H

#include <CLI/CLI.hpp>
#include <string>

namespace moetool {

/// The help of a command, or of the tool with its commands, in lines of at most
/// `width` columns.
std::string helpText(const CLI::App &app, size_t width);

/// A page in man's language for the tool and all its commands, in section 1.
std::string manPage(const CLI::App &tool);

/// The tool's commands and options in Markdown, a section each.
std::string markdownReference(const CLI::App &tool);

enum class Shell { Bash, Zsh, Fish };

/// A script for a shell that completes the tool's commands, options and words.
std::string completionScript(const CLI::App &tool, Shell shell);

} // namespace moetool

#endif // MOE_TOOLS_COMMON_HELP_H
