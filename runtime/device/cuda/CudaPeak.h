//===- CudaPeak.h - Matrix rates by compute capability ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAPEAK_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAPEAK_H

#include <optional>

namespace moert {

/// Dense operations of a multiprocessor's tensor cores in one clock, a multiply
/// and an add counted as two: int8 with int32 sums, F16 or BF16 with F32 sums.
struct CudaPeak {
  int int8Ops = 0, floatOps = 0;
};

/// Published figures, not measurements. Within a compute capability the figure
/// is that of consumer cards, which sum floats at half the rate of their
/// workstation siblings. A capability that is not in the table has those of the
/// nearest lower one of its generation, nullopt where there is none.
std::optional<CudaPeak> cudaPeak(int arch);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAPEAK_H
