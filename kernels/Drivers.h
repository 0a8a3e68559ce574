//===- Drivers.h - Declarations of every kernel in Kernels.def --*- C++ -*-===//

#ifndef MOE_KERNELS_DRIVERS_H
#define MOE_KERNELS_DRIVERS_H

#include "kernels/Abi.h"
#include "kernels/CopyArgs.h"

namespace moek {

/// The argument struct of an op.
template <OpCode Op> struct ArgsOfOp;
#define MOE_ARGS(op)                                                           \
  template <> struct ArgsOfOp<OpCode::op> { using type = op##Args; };
MOE_ARGS(Embed)
MOE_ARGS(RopeTable)
MOE_ARGS(RmsNorm)
MOE_ARGS(Quantize)
MOE_ARGS(Linear)
MOE_ARGS(GateUp)
MOE_ARGS(SiluMul)
MOE_ARGS(Add)
MOE_ARGS(Rope)
MOE_ARGS(MlaLatent)
MOE_ARGS(AbsorbQuery)
MOE_ARGS(LatentAttention)
MOE_ARGS(HeadLinear)
MOE_ARGS(MlaAttention)
MOE_ARGS(Router)
MOE_ARGS(ExpertGroup)
MOE_ARGS(ExpertsLinear)
MOE_ARGS(ExpertsGateUp)
MOE_ARGS(ExpertsCombine)
MOE_ARGS(LatentCombine)
MOE_ARGS(Copy)
#undef MOE_ARGS
template <OpCode Op> using ArgsOf = typename ArgsOfOp<Op>::type;

#define MOE_KERNEL(name, op, isa)                                              \
  void name(const ArgsOf<OpCode::op> &, const Step &, const Worker &);
#define MOE_GEMM(name, format, encoding, layout, isa, min, max, panel)         \
  void name(const uint8_t *w, int64_t wStride, int64_t rows,                   \
            const uint8_t *const *act, int64_t tokens, int64_t cols,           \
            float *out, int64_t outStride);
#include "kernels/Kernels.def"

} // namespace moek

#endif // MOE_KERNELS_DRIVERS_H
