//===- Model.h - From a model file to its graph -----------------*- C++ -*-===//

#ifndef MOE_MODELS_MODEL_H
#define MOE_MODELS_MODEL_H

#include "compiler/Import/GgufFile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/base/Status.h"

#include <string_view>
#include <vector>

namespace moec {

struct ArchitectureInfo {
  std::string_view name;   ///< general.architecture
  std::string_view models; ///< Whose files have it.
};

/// Those of Architectures.def, in its order.
std::vector<ArchitectureInfo> supportedArchitectures();

/// Positions of a sequence if nobody says how many, of a model that knows them.
inline constexpr int64_t kDefaultContext = 4096;

/// The graph of `model` in the `moe` dialect, whose dialects `context` loads.
///
/// Functions: `@forward(tensor<?xi32>) -> tensor<?xHIDDENxf32>` from token ids
/// to the last residual sum, `@logits(tensor<?xHIDDENxf32>) ->
/// tensor<?xVOCABxf32>` from there through the output norm. Every op that
/// computes has a `moe.label`, unique in its function: "blk.3.attn_q".
///
/// Module attributes:
///   moe.model  {architecture, name, hash: strings; hidden, vocab, layers,
///              context_length, heads, experts, experts_used, latent, rope,
///              parameters: i64}; hash is of all headers, parameters counts
///              the elements of the weights in use
///   moe.files  [{path, bytes, header_bytes, header_hash}], as #moe.weight
///              numbers them
///   moe.notes  strings: what was skipped or assumed
///
/// Fails with InvalidFile when hyper-parameters or tensors are missing or do
/// not fit together, with Unsupported for other architectures, formats without
/// kernels and variants that are not implemented; messages name file, key or
/// tensor, expected and found, and of another architecture what it has that no
/// supported one does.
///
/// `positions`: the most of a sequence, by which LongRoPE goes.
moert::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(mlir::MLIRContext &context, const GgufModel &model,
            int64_t positions = kDefaultContext);

} // namespace moec

#endif // MOE_MODELS_MODEL_H
