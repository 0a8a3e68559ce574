//===- CudaOperands.h - Operands with device addresses ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAOPERANDS_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAOPERANDS_H

#include "runtime/device/DeviceOperands.h"
#include "runtime/device/cuda/CudaWeights.h"

#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace moert {

/// Addresses, on the GPU, of the memory that instructions use.
struct CudaMemory {
  /// By device of the plan; 0 if the GPU cannot access the arena.
  std::vector<cu::DevicePointer> arenas;
  cu::DevicePointer kv = 0, workspace = 0, weights = 0;
  std::map<uint32_t, cu::DevicePointer> steps; ///< By queue of the plan.
  std::vector<cu::DevicePointer> constants;    ///< By constant of the plan.
  /// Pages of CudaLinks; 0: this device has no link.
  cu::DevicePointer links = 0;
  /// By weight of the plan: the GPU's address of host memory with weights that
  /// it streams, and with weights that it has there. Of weights that go through
  /// a ring, it is the host's address.
  std::map<uint32_t, cu::DevicePointer> streamed, inPlace;
};

/// Answers the queries of kernels/Arguments.h about an instruction with
/// addresses on the GPU.
class CudaOperands : public DeviceOperands {
public:
  /// `received` is the address of data that another GPU sent for a copy, or 0.
  CudaOperands(const fb::Plan &plan, const ProvenOp &op,
               const CudaMemory &memory, const CudaWeights &weights,
               cu::DevicePointer received)
      : DeviceOperands(plan, op), memory_(memory), weights_(weights),
        received_(received) {}

  uint8_t *bytes(std::string_view name);
  std::span<const float> constant(std::string_view name) const;
  moek::WeightView weight(std::string_view name);
  moek::KvView cache(std::string_view name) const;
  moek::GemmFn gemm(std::string_view name) const;

private:
  const CudaMemory &memory_;
  const CudaWeights &weights_;
  const cu::DevicePointer received_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAOPERANDS_H
