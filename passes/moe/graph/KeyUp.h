//===- KeyUp.h - How absorb_query reads W_UK --------------------*- C++ -*-===//
//
// Used by moe-absorb-mla. W_UK^T q sums over rows of W_UK [heads, nope,
// latent], a gemm over columns. As the model file has it, the weight is made
// floats in every step; a transposed copy, written when weights are packed, is
// multiplied by the gemm that everything else uses.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_GRAPH_KEYUP_H
#define MOE_PASSES_MOE_GRAPH_KEYUP_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/Moe.h"
#include "passes/moe/PassEnums.h"

#include <string>

namespace mlir::moe {

struct KeyUp {
  RankedTensorType copy; ///< Of a transposed copy; null to read W_UK itself.
  std::string reason;    ///< A sentence; empty if there was nothing to choose.
};

/// A copy wherever weights may be computed and `device` has a gemm on packed
/// rows for its format: Q8_0 of a quantised weight, else the weight's own. That
/// is a rule: the cost model counts bytes, of which the copy may have more, and
/// not what it takes to dequantise.
KeyUp keyUpOf(MlaAttentionOp op, const moec::DeviceDesc &device,
              WeightsMode weights);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_GRAPH_KEYUP_H
