//===- CudaPeak.h - Matrix rates by compute capability ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAPEAK_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAPEAK_H

#include <optional>

namespace moert {

/// Dense operations per clock of a multiprocessor's tensor cores; a multiply
/// and an add count as two: int8 with int32 sums, F16 or BF16 with F32 sums.
struct CudaPeak {
  int int8Ops = 0, floatOps = 0;
};

/// Returns published figures, not measurements. For compute capabilities of
/// consumer cards they are those of the latter, which sum floats at half the
/// rate of workstation cards. A capability that is not in the table gets the
/// figures of the next lower one of its generation, or nullopt if there is
/// none.
std::optional<CudaPeak> cudaPeak(int arch);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAPEAK_H
