//===- Force.h - The option --force -----------------------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_FORCE_H
#define MOE_TOOLS_COMMON_FORCE_H

#include "tools/common/Options.h"

namespace moetool {

/// --force of a command that writes a file: see moert::OutputRule.
inline CLI::Option *addForce(CLI::App &command, bool &force) {
  constexpr moert::OptionInfo row = {.names = "--force",
                                     .help = moert::kForceHelp};
  return addOption(command, row, force);
}

} // namespace moetool

#endif // MOE_TOOLS_COMMON_FORCE_H
