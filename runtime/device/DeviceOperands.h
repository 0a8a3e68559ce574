//===- DeviceOperands.h - A proven instruction's operands -------*- C++ -*-===//
//
// The answers to kernels/Arguments.h that are the same for all devices: an
// instruction's parameters and shapes. A class that derives from this one knows
// a device's addresses, and what the device reaches. The first failure is kept,
// and finish() returns it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_DEVICEOPERANDS_H
#define MOE_RUNTIME_DEVICE_DEVICEOPERANDS_H

#include "runtime/base/Status.h"
#include "runtime/prove/ProvenOp.h"

#include <span>
#include <string_view>

namespace moert {

class DeviceOperands {
public:
  /// `plan` and `op`, which is one of its instructions, outlive it.
  DeviceOperands(const fb::Plan &plan, const ProvenOp &op)
      : plan_(plan), op_(op) {}

  int32_t integer(std::string_view name) const { return op_.integer(name); }
  float real(std::string_view name) const { return op_.real(name); }
  bool has(std::string_view name) const { return op_.has(name); }

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
  moek::Encoding gemmEncoding(std::string_view name) const {
    return op_.gemm(name).activation;
  }

  /// Returns WrongMachine if the device cannot access an operand, or has no
  /// kernel for it.
  Status finish() { return std::move(status_); }

protected:
  /// Returns a view of a weight whose bytes begin at `data`.
  moek::WeightView weightAt(std::string_view name, const uint8_t *data) const;
  /// Returns a view of a cache on a device whose caches begin at `caches`.
  moek::KvView cacheIn(std::string_view name, uint8_t *caches) const;
  /// Records the failure that the device cannot access the memory of buffer
  /// `name`.
  void failToReach(std::string_view name);

  const fb::Plan &plan_;
  const ProvenOp &op_;
  Status status_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_DEVICEOPERANDS_H
