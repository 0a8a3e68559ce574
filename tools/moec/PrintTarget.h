//===- PrintTarget.h - A machine description for people ---------*- C++ -*-===//

#ifndef MOE_TOOLS_MOEC_PRINTTARGET_H
#define MOE_TOOLS_MOEC_PRINTTARGET_H

#include "compiler/Machine/Targets/Target.h"

namespace moec {

/// On standard output, some lines per device.
void printTarget(const TargetDesc &target);

} // namespace moec

#endif // MOE_TOOLS_MOEC_PRINTTARGET_H
