//===- CostModel.h - Seconds from work, traffic and rates -------*- C++ -*-===//
//
// The roofline (Williams et al., CACM 2009): an op takes the longer of its
// arithmetic at the device's rate and its traffic at the device's bandwidth.
// What an op costs is the op's CostOpInterface; what a device does per second
// is its description. No other constants.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_COSTMODEL_COSTMODEL_H
#define MOE_COMPILER_COSTMODEL_COSTMODEL_H

#include "compiler/Targets/Target.h"
#include "dialects/moe/Moe.h"

namespace moec {

/// Seconds for one execution on `device`. `integer`: the op's kernels multiply
/// 8-bit integers (quantised weights), so the int8 rate applies.
double opSeconds(const mlir::moe::Cost &cost, const DeviceDesc &device,
                 bool integer);

/// Same, with the cost and the kind of arithmetic taken from the op.
double opSeconds(mlir::moe::CostOpInterface op, int64_t tokens, int64_t context,
                 const DeviceDesc &device);

/// Seconds to move `bytes` over the device's link to the host.
double transferSeconds(double bytes, const DeviceDesc &device);

} // namespace moec

#endif // MOE_COMPILER_COSTMODEL_COSTMODEL_H
