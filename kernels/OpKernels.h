//===- OpKernels.h - Declarations of the CPU kernels ------------*- C++ -*-===//
//
// An op kernel executes one instruction on a CPU. Kernels.def lists them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_OPKERNELS_H
#define MOE_KERNELS_OPKERNELS_H

#include "kernels/Abi.h"

namespace moek {

#define MOE_KERNEL(name, op, isa)                                              \
  void name(const ArgsOf<OpCode::op> &, const Step &, const Worker &);
#include "kernels/Kernels.def"

} // namespace moek

#endif // MOE_KERNELS_OPKERNELS_H
