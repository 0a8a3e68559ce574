//===- Model.h - Builds the graph of a model file ---------------*- C++ -*-===//

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
  std::string_view models; ///< Models with this architecture.
};

/// Returns the architectures in Architectures.def, in its order.
std::vector<ArchitectureInfo> supportedArchitectures();

/// Returns whether general.architecture is one of them.
bool isSupported(std::string_view architecture);

/// Default length of a sequence, unless the model's own limit is lower.
inline constexpr int64_t kDefaultContext = 4096;

struct ImportOptions {
  /// The longest sequence, on which LongRoPE depends.
  int64_t positions = kDefaultContext;
  /// Whether the layer for multi-token prediction (MTP) is imported. The file
  /// must then have one.
  bool mtp = false;
  /// With more than 1, rotary embeddings are scaled by YaRN (arXiv 2309.00071)
  /// with this factor, and moe.model's context_length is this many times the
  /// file's, as if the file had the keys rope.scaling.type, .factor and
  /// .original_context_length. At most kMostYarnFactor.
  double yarnFactor = 1;
};

/// A model was never shown to be of use at a hundredth of this factor.
inline constexpr double kMostYarnFactor = 1e4;

/// Returns the tensors and keys of a file that the builder of no architecture
/// would ask for, one of each kind (models/UnknownParts.h).
std::vector<std::string> unknownParts(mlir::MLIRContext &context,
                                      const GgufModel &model);

/// Returns the graph of `model` in the `moe` dialect; `context` loads the
/// dialects.
///
/// Functions: `@forward(tensor<?xi32>) -> tensor<?xHIDDENxf32>` maps token ids
/// to the last residual sum. `@logits(tensor<?xHIDDENxf32>) ->
/// tensor<?xVOCABxf32>` maps it to logits, including the output norm. With
/// ImportOptions::mtp, `@draft(tensor<?xi32>, tensor<?xHIDDENxf32>) ->
/// tensor<?xHIDDENxf32>` is the first MTP layer (arXiv 2412.19437, section
/// 2.2): it maps the id of each token and the hidden row of the token before
/// it, behind the output norm, to a row that predicts the token after it, and
/// that takes the hidden row's place if it is asked for one more token;
/// `@draft_logits(tensor<?xHIDDENxf32>) -> tensor<?xVOCABxf32>` is its head,
/// without a norm. Weights
/// are `moe.weight` symbols with the tensors' names before the functions. Every
/// op that computes has a `moe.label` such as "blk.3.attn_q", unique in its
/// function.
///
/// Module attributes:
///   moe.model  {architecture, name, hash, pooling: strings; hidden, vocab,
///              layers, mtp_layers, context_length, heads, experts,
///              experts_used, latent, rope, parameters: i64}; hash covers all
///              headers, parameters counts the elements of the weights in use
///   moe.files  [{path, bytes, header_bytes, header_hash}], in the numbering
///              of #moe.tensor
///   moe.notes  strings: what was skipped or assumed
///
/// Fails with Usage if ImportOptions::yarnFactor does not fit the model: the
/// file has a scaling of its own, or the model has no rotary embeddings. Fails
/// with InvalidFile if hyper-parameters or tensors are missing or do not
/// fit together, and with Unsupported for other architectures, formats without
/// kernels and variants that are not implemented. Messages name file, key or
/// tensor, expected and found; for an unknown architecture, also its parts that
/// no supported architecture has.
moert::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(mlir::MLIRContext &context, const GgufModel &model,
            ImportOptions options = {});

} // namespace moec

#endif // MOE_MODELS_MODEL_H
