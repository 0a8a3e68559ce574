//===- Decoder.h - The frame around attention and feed-forward --*- C++ -*-===//

#ifndef MOE_MODELS_DECODER_H
#define MOE_MODELS_DECODER_H

#include "models/ModelBuilder.h"

namespace moec {

/// A decoder-only transformer without the insides of its blocks.
struct Decoder {
  int64_t hidden = 0, vocab = 0;
  int64_t layers = 0; ///< Layers in the graph.
  int64_t blocks = 0; ///< Blocks in the file, including those for MTP.
  double eps = 0;     ///< Epsilon of every RMS norm.
  /// Factor on embedded rows; Gemma uses it because its embeddings are small.
  double embeddingScale = 1;
  /// Whether results of attention and feed-forward are normed before they are
  /// added.
  bool normsResults = false;
  double softcap = 0; ///< c in c * tanh(logits / c); 0: no softcap.
};

/// Reads the keys that every architecture has, stores them in the model's
/// facts, and skips the blocks for multi-token prediction
/// (nextn_predict_layers).
moert::StatusOr<Decoder> readDecoder(ModelBuilder &model);

/// Builders of a block's parts. Each maps normed rows [T, hidden] of layer
/// `layer`, whose tensors begin with `block` ("blk.3."), to rows that are added
/// to the residual stream.
struct DecoderParts {
  using Part = llvm::function_ref<moert::StatusOr<mlir::Value>(
      int64_t layer, const std::string &block, mlir::Value x)>;
  Part attention, feedForward;
};

/// Begins @forward: looks up rows [T, hidden] of token_embd and multiplies them
/// by embeddingScale.
moert::StatusOr<mlir::Value> beginForward(ModelBuilder &model,
                                          const Decoder &decoder);

/// Ends @forward with `x` and builds @logits: output_norm and output (the
/// embedding table if the file has no output), then the softcap.
moert::Status endForward(ModelBuilder &model, const Decoder &decoder,
                         mlir::Value x);

/// Returns x + norm(y), with the norm's weight `block``norm`; the sum is
/// labelled `add`.
moert::StatusOr<mlir::Value>
addNormed(ModelBuilder &model, const Decoder &decoder, const std::string &block,
          mlir::Value x, mlir::Value y, const char *norm, const char *add);

/// Builds @forward: the embedding, then for each layer x +=
/// attention(attn_norm(x)) and x += feedForward(ffn_norm(x)); some files call
/// the latter norm post_attention_norm. With normsResults, a layer is x +=
/// post_attention_norm(attention(attn_norm(x))) and x +=
/// post_ffw_norm(feedForward(ffn_norm(x))). @logits is as in endForward().
moert::Status buildDecoder(ModelBuilder &model, const Decoder &decoder,
                           const DecoderParts &parts);

} // namespace moec

#endif // MOE_MODELS_DECODER_H
