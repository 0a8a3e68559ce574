#include "compiler/CostModel/CostModel.h"

#include <algorithm>

using namespace mlir;

namespace moec {

double opSeconds(const moe::Cost &cost, const DeviceDesc &device,
                 bool integer) {
  double rate = integer ? device.int8OpsPerSecond : device.floatOpsPerSecond;
  double compute = rate > 0 ? cost.flops / rate : 0;
  double traffic = (cost.weightBytes + cost.kvBytes + cost.activationBytes) /
                   device.readBytesPerSecond;
  return std::max(compute, traffic);
}

/// Whether the op's weights are read by integer kernels: its largest weight is
/// in a quantised format and a gemm (not a dequantising loop) reads it.
static bool usesIntegerRate(moe::CostOpInterface op) {
  if (isa<moe::MlaAttentionOp>(op.getOperation()))
    return false;
  if (auto absorb = dyn_cast<moe::AbsorbQueryOp>(op.getOperation());
      absorb && !absorb.getKTransposed())
    return false;
  for (Value operand : op->getOperands())
    if (moe::isWeight(operand))
      if (auto type = cast<RankedTensorType>(operand.getType());
          type.getRank() >= 2 &&
          isa<moe::QuantTypeInterface>(type.getElementType()))
        return true;
  return false;
}

double opSeconds(moe::CostOpInterface op, int64_t tokens, int64_t context,
                 const DeviceDesc &device) {
  return opSeconds(op.getCost(tokens, context), device, usesIntegerRate(op));
}

double transferSeconds(double bytes, const DeviceDesc &device) {
  if (device.linkBytesPerSecond <= 0)
    return 0;
  return device.linkLatencySeconds + bytes / device.linkBytesPerSecond;
}

} // namespace moec
