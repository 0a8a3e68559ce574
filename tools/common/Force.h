//===- Force.h - The option --force -----------------------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_FORCE_H
#define MOE_TOOLS_COMMON_FORCE_H

#include <CLI/CLI.hpp>

namespace moetool {

/// --force of a command that writes a file: see moert::OutputRule.
inline CLI::Option *addForce(CLI::App &command, bool &force) {
  return command.add_flag("--force", force,
                          "Let an output replace a file of another kind. "
                          "Without it an output replaces only an empty file or "
                          "one of the kind that it writes; a file that the "
                          "command reads or that a plan needs is never "
                          "replaced");
}

} // namespace moetool

#endif // MOE_TOOLS_COMMON_FORCE_H
