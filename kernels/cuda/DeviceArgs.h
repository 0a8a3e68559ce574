//===- DeviceArgs.h - Arguments of CUDA kernels -----------------*- C++ -*-===//
//
// deviceArgs(a, step) makes the struct that a CUDA kernel receives
// (kernels/cuda/Abi.h) from the arguments of its instruction (kernels/Abi.h),
// for every entry of kernels/Ops.def.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_DEVICEARGS_H
#define MOE_KERNELS_CUDA_DEVICEARGS_H

#include "kernels/Abi.h"
#include "kernels/cuda/Abi.h"

namespace moek::cuda {

inline Matrix deviceView(const WeightView &w) {
  return {w.data, w.rows, w.cols, w.outerStride, w.rowStride};
}
inline Kv deviceView(const KvView &kv) {
  return {kv.data, kv.width, kv.rowStride};
}
inline ExpertSlice deviceView(const moek::ExpertSlice &slice) {
  return {slice.map, slice.begin, slice.count};
}

/// Assigns a member. Views are converted by the functions above, pointers are
/// copied, and numbers are converted to the types that CUDA kernels use for
/// them.
template <class To, class From> void assign(To &to, const From &from) {
  if constexpr (requires { deviceView(from); })
    to = deviceView(from);
  else
    to = To(from);
}

#define MOE_MEMBER(type, cpu, gpu, member) assign(to.member, a.member);
#define MOE_CPU_MEMBER(type, cpu, member)
#define MOE_NO_MEMBER
#define MOE_OP(op, name, number, kind)                                         \
  inline op##Args deviceArgs(const moek::op##Args &a, const Step *step) {      \
    op##Args to{};                                                             \
    to.step = step;
#define MOE_OPERAND(name, role, type, ...) MOE_TYPE_##type
#define MOE_INT(name, type, ...) MOE_TYPE_##type
#define MOE_FLOAT(name, type, ...) MOE_TYPE_##type
#define MOE_SHAPE(type, ...) MOE_TYPE_##type
#define MOE_OP_END                                                             \
  return to;                                                                   \
  }
#include "kernels/Ops.def"
#undef MOE_MEMBER
#undef MOE_CPU_MEMBER
#undef MOE_NO_MEMBER

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_DEVICEARGS_H
