//===- KeyUpCopy.h - Transposed copies of W_UK ------------------*- C++ -*-===//
//
// moe-absorb-mla uses this. W_UK^T q sums over the rows of W_UK [heads, nope,
// latent], but a gemm sums over columns. Without a copy, every step dequantises
// W_UK to floats; a transposed copy, written when weights are packed, is
// multiplied by an ordinary gemm.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_GRAPH_KEYUPCOPY_H
#define MOE_PASSES_MOE_GRAPH_KEYUPCOPY_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/Moe.h"
#include "passes/moe/PassEnums.h"

#include <string>

namespace mlir::moe {

struct KeyUpCopy {
  RankedTensorType copy; ///< Type of the transposed copy; null for no copy.
  std::string reason;    ///< Sentence for moe.reason; empty without a choice.
};

/// Decides whether `op` gets a transposed copy of W_UK: it does if weights may
/// be computed and `device` has a gemm on packed rows for the copy's format
/// (Q8_0 if W_UK is quantised, else W_UK's own format). This is a fixed rule
/// because the cost model counts bytes, of which the copy may have more, but
/// not the time to dequantise.
KeyUpCopy chooseKeyUpCopy(MlaAttentionOp op, const moec::DeviceDesc &device,
                          WeightsMode weights);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_GRAPH_KEYUPCOPY_H
