//===- WeightsInL2.h - What a GPU saves by weights in L2 --------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_COSTMODEL_WEIGHTSINL2_H
#define MOE_COMPILER_MACHINE_COSTMODEL_WEIGHTSINL2_H

#include "compiler/Machine/Targets/Target.h"

namespace moec {

/// Returns the seconds that a product with `rows` rows of activations saves on
/// a GPU if `bytes` of its weights are in L2 before it begins. `gemm` may be
/// null.
double secondsSavedByL2(double bytes, const moek::GemmInfo *gemm, double rows,
                        const DeviceDesc &device);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_COSTMODEL_WEIGHTSINL2_H
