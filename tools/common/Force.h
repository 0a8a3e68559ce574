//===- Force.h - The option --force -----------------------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_FORCE_H
#define MOE_TOOLS_COMMON_FORCE_H

#include "tools/common/Options.h"

namespace moetool {

/// Adds --force to a command that writes a file: see moert::OutputRule. `group`
/// is its heading in the help.
inline void addForce(CLI::App &command, bool &force,
                     std::string_view group = "") {
  moert::OptionInfo row = {.names = "--force", .help = moert::kForceHelp};
  row.group = group;
  addOption(command, row, force);
}

} // namespace moetool

#endif // MOE_TOOLS_COMMON_FORCE_H
