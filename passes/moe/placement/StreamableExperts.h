//===- StreamableExperts.h - Experts that a GPU can copy --------*- C++ -*-===//
//
// A step of many tokens does many multiplications per expert. From some step
// length on, copying the host's experts over the link and multiplying on the
// GPU takes less time than multiplying on the CPU (StreamExperts.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_STREAMABLEEXPERTS_H
#define MOE_PASSES_MOE_PLACEMENT_STREAMABLEEXPERTS_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/WeightTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace mlir::moe {

/// Which experts of a function for prompts can be streamed, and where.
class StreamableExperts {
public:
  explicit StreamableExperts(func::FuncOp prefill);

  /// Says why the op, on the CPU `host`, cannot be streamed to `ofRouter`, the
  /// device of its layer's router; "" if it can. The device needs kernels for
  /// all layouts that the CPU may use.
  std::string obstacle(ExpertsOp op, const moec::DeviceDesc &host,
                       const moec::DeviceDesc &ofRouter) const;

  /// Returns the bytes of both slots that a layer's experts need. All layers
  /// use the same slots.
  static int64_t slotBytes(ExpertsOp op);
  /// Returns the bytes of a layer's experts that stay on the GPU: biases and
  /// scales.
  static int64_t keptBytes(ExpertsOp op);

private:
  bool isReadByBoth(WeightOp weight, const moec::DeviceDesc &gpu) const;

  WeightTable weights;
  int64_t rows; ///< Of the longest step.
  /// By type of a weight and GPU.
  mutable std::map<std::pair<const void *, const moec::DeviceDesc *>, bool>
      known;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_STREAMABLEEXPERTS_H
