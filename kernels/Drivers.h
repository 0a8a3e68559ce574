//===- Drivers.h - Declarations of the drivers ------------------*- C++ -*-===//

#ifndef MOE_KERNELS_DRIVERS_H
#define MOE_KERNELS_DRIVERS_H

#include "kernels/Abi.h"
#include "kernels/CopyArgs.h"
#include "kernels/SparseArgs.h"

namespace moek {

/// The argument struct of an op.
template <OpCode Op> struct ArgsOfOp;
#define MOE_OP(op, name, number, kind)                                         \
  template <> struct ArgsOfOp<OpCode::op> { using type = op##Args; };
#include "kernels/Ops.def"
template <OpCode Op> using ArgsOf = typename ArgsOfOp<Op>::type;

#define MOE_KERNEL(name, op, isa)                                              \
  void name(const ArgsOf<OpCode::op> &, const Step &, const Worker &);
#include "kernels/Kernels.def"

} // namespace moek

#endif // MOE_KERNELS_DRIVERS_H
