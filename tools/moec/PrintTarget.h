//===- PrintTarget.h - Prints a machine description -------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOEC_PRINTTARGET_H
#define MOE_TOOLS_MOEC_PRINTTARGET_H

#include "compiler/Machine/Targets/Target.h"

namespace moec {

/// Prints some lines per device on standard output.
void printTarget(const TargetDesc &target);

} // namespace moec

#endif // MOE_TOOLS_MOEC_PRINTTARGET_H
