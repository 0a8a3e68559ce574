//===- Commands.h - The sub-commands of moec --------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOEC_COMMANDS_H
#define MOE_TOOLS_MOEC_COMMANDS_H

#include "tools/common/Cli.h"

namespace moec {

void addCompileCommand(moetool::Tool &tool);
void addPlanCommand(moetool::Tool &tool);
void addDoctorCommand(moetool::Tool &tool);
void addModelCommand(moetool::Tool &tool);
void addExplainCommand(moetool::Tool &tool);
void addDiffCommand(moetool::Tool &tool);
void addInspectCommand(moetool::Tool &tool);
void addAssembleCommand(moetool::Tool &tool);
void addCalibrateCommand(moetool::Tool &tool);
void addTargetsCommand(moetool::Tool &tool);
void addArchitecturesCommand(moetool::Tool &tool);
void addFormatsCommand(moetool::Tool &tool);

} // namespace moec

#endif // MOE_TOOLS_MOEC_COMMANDS_H
