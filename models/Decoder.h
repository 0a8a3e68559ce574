//===- Decoder.h - What surrounds attention and feed-forward ----*- C++ -*-===//

#ifndef MOE_MODELS_DECODER_H
#define MOE_MODELS_DECODER_H

#include "models/ModelBuilder.h"

namespace moec {

/// A decoder-only transformer without its blocks' insides.
struct Decoder {
  int64_t hidden = 0, vocab = 0;
  int64_t layers = 0; ///< That are run.
  int64_t blocks = 0; ///< In the file: with those that predict further ahead.
  double eps = 0;     ///< Of every RMS norm.
  /// The factor of embedded rows, by which Gemma makes up for small embeddings.
  double embeddingScale = 1;
  /// Results of attention and feed-forward are normed before they are added.
  bool normsResults = false;
  double softcap = 0; ///< c in c * tanh(logits / c); 0 leaves logits alone.
};

/// Reads the keys that every architecture has, notes them in the model's facts,
/// and leaves out the blocks of multi-token prediction (nextn_predict_layers).
moert::StatusOr<Decoder> readDecoder(ModelBuilder &model);

/// How a block mixes. Each part maps normed rows [T, hidden] of layer `layer`,
/// whose tensors begin with `block` ("blk.3."), to rows to add.
struct DecoderParts {
  using Part = llvm::function_ref<moert::StatusOr<mlir::Value>(
      int64_t layer, const std::string &block, mlir::Value x)>;
  Part attention, feedForward;
};

/// Begins @forward: rows [T, hidden] of token_embd, times embeddingScale.
moert::StatusOr<mlir::Value> beginForward(ModelBuilder &model,
                                          const Decoder &decoder);

/// Ends @forward with `x`. @logits: output_norm and output, or the embedding's
/// table where the file has no output; then the softcap.
moert::Status endForward(ModelBuilder &model, const Decoder &decoder,
                         mlir::Value x);

/// x + norm(y), with the weight `block``norm`; the sum is labelled `add`.
moert::StatusOr<mlir::Value>
addNormed(ModelBuilder &model, const Decoder &decoder, const std::string &block,
          mlir::Value x, mlir::Value y, const char *norm, const char *add);

/// @forward: embedding, then x += attention(attn_norm(x)) and
/// x += feedForward(ffn_norm(x)) per layer; some files call the latter norm
/// post_attention_norm. With normsResults it is
/// x += post_attention_norm(attention(attn_norm(x))) and
/// x += post_ffw_norm(feedForward(ffn_norm(x))). @logits as endForward().
moert::Status buildDecoder(ModelBuilder &model, const Decoder &decoder,
                           const DecoderParts &parts);

} // namespace moec

#endif // MOE_MODELS_DECODER_H
