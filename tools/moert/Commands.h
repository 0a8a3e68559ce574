//===- Commands.h - The sub-commands of moert -------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_COMMANDS_H
#define MOE_TOOLS_MOERT_COMMANDS_H

#include "tools/common/Cli.h"

namespace moert {

void addRunCommand(moetool::Tool &tool);
void addChatCommand(moetool::Tool &tool);
void addRenderCommand(moetool::Tool &tool);
void addLogitsCommand(moetool::Tool &tool);
void addTokenizeCommand(moetool::Tool &tool);
void addPerplexityCommand(moetool::Tool &tool);
void addBenchCommand(moetool::Tool &tool);
void addProfileCommand(moetool::Tool &tool);
void addProfileRouterCommand(moetool::Tool &tool);
void addDevicesCommand(moetool::Tool &tool);
void addInfoCommand(moetool::Tool &tool);
void addServeCommand(moetool::Tool &tool);
void addVerifyCommand(moetool::Tool &tool);
void addPlansCommand(moetool::Tool &tool);

} // namespace moert

#endif // MOE_TOOLS_MOERT_COMMANDS_H
