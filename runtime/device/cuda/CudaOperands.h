//===- CudaOperands.h - Operands with device addresses ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAOPERANDS_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAOPERANDS_H

#include "runtime/PlanAccess.h"
#include "runtime/ProvenOp.h"
#include "runtime/device/cuda/CudaWeights.h"

#include <span>
#include <string_view>
#include <vector>

namespace moert {

/// Where a GPU finds what its instructions use.
struct CudaMemory {
  /// Of each device of the plan; 0 for those that it does not reach.
  std::vector<cu::DevicePointer> arenas;
  cu::DevicePointer kv = 0, workspace = 0, step = 0, weights = 0;
  std::vector<cu::DevicePointer> constants; ///< By constant of the plan.
};

/// Of an instruction, as kernels/Arguments.h asks for them.
class CudaOperands {
public:
  CudaOperands(const fb::Plan &plan, const ProvenOp &op,
               const CudaMemory &memory, const CudaWeights &weights)
      : plan_(plan), op_(op), memory_(memory), weights_(weights) {}

  int32_t integer(std::string_view name) const { return op_.integer(name); }
  bool boolean(std::string_view name) const { return op_.boolean(name); }
  float real(std::string_view name) const { return op_.real(name); }
  bool has(std::string_view name) const { return op_.has(name); }

  uint8_t *bytes(std::string_view name);
  int64_t cols(std::string_view name) const { return op_.buffer(name).cols(); }
  int64_t rowsPerToken(std::string_view name) const {
    return op_.buffer(name).rows_per_token();
  }
  int64_t fixedRows(std::string_view name) const {
    return op_.buffer(name).fixed_rows();
  }
  moek::Encoding encoding(std::string_view name) const {
    return moek::Encoding(op_.buffer(name).encoding());
  }
  std::span<const float> constant(std::string_view name) const;
  moek::WeightView weight(std::string_view name);
  moek::KvView cache(std::string_view name) const;
  moek::GemmFn gemm(std::string_view name) const;
  moek::Encoding gemmEncoding(std::string_view name) const {
    return op_.gemm(name).activation;
  }

  /// WrongMachine where an operand is out of the GPU's reach.
  Status finish() { return std::move(status_); }

private:
  const fb::Operand &operand(std::string_view name) const;

  const fb::Plan &plan_;
  const ProvenOp &op_;
  const CudaMemory &memory_;
  const CudaWeights &weights_;
  Status status_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAOPERANDS_H
