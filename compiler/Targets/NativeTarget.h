//===- NativeTarget.h - Describing this machine -----------------*- C++ -*-===//

#ifndef MOE_COMPILER_TARGETS_NATIVETARGET_H
#define MOE_COMPILER_TARGETS_NATIVETARGET_H

#include "compiler/Targets/Target.h"

namespace moec {

/// This machine's CPU: ISA, cores and memory as detected, rates as measured by
/// short runs (about 0.2 s). Measurements are kept in the user's cache folder
/// under the CPU's identity, so that compiling twice gives the same plan.
moert::StatusOr<DeviceDesc> nativeDevice();

} // namespace moec

#endif // MOE_COMPILER_TARGETS_NATIVETARGET_H
