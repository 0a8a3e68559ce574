//===- ScaledRates.h - Kernel rates of similar GPUs -------------*- C++ -*-===//
//
// The software GPU's clock computed kernel rates for one GPU of a family; those
// of the others follow from their peaks.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_SCALEDRATES_H
#define MOE_COMPILER_MACHINE_TARGETS_SCALEDRATES_H

#include "compiler/Machine/Targets/Target.h"

namespace moec {

/// Gives `device` the kernel rates of `other`, scaled by the ratio of their
/// peaks, and the time between its instructions. Of the time that a byte of
/// weights takes, the part that `other` needs to read it at its peak follows
/// the ratio of bandwidths; the rest follows that of operations, as do other
/// rates. What a call takes however small it is stays. A device whose peaks are
/// all higher gets no lower rate.
void takeScaledRates(const DeviceDesc &other, DeviceDesc &device);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_SCALEDRATES_H
