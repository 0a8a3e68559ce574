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

/// Where a GPU finds what its instructions use.
struct CudaMemory {
  /// Of each device of the plan; 0 for those that it does not reach.
  std::vector<cu::DevicePointer> arenas;
  cu::DevicePointer kv = 0, workspace = 0, weights = 0;
  std::map<uint32_t, cu::DevicePointer> steps; ///< By queue of the plan.
  std::vector<cu::DevicePointer> constants;    ///< By constant of the plan.
  cu::DevicePointer links =
      0; ///< Pages of CudaLinks; 0: it has no part in any.
  /// By weight of the plan: where the GPU reads those of the host's memory that
  /// are streamed to it.
  std::map<uint32_t, cu::DevicePointer> streamed;
};

/// Of an instruction, as kernels/Arguments.h asks for them, with addresses on
/// the GPU.
class CudaOperands : public DeviceOperands {
public:
  /// `received` is where a copy finds what another GPU sent, or 0.
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
