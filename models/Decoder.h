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

/// Begins @forward: rows [T, hidden] of token_embd.
moert::StatusOr<mlir::Value> beginForward(ModelBuilder &model,
                                          const Decoder &decoder);

/// Ends @forward with `x`. @logits: output_norm and output, or the embedding's
/// table where the file has no output; with a `softcap` c c * tanh(logits / c).
moert::Status endForward(ModelBuilder &model, const Decoder &decoder,
                         mlir::Value x, double softcap = 0);

/// @forward: embedding, then x += attention(attn_norm(x)) and
/// x += feedForward(ffn_norm(x)) per layer; some files call the latter norm
/// post_attention_norm. @logits as endForward().
moert::Status buildDecoder(ModelBuilder &model, const Decoder &decoder,
                           const DecoderParts &parts);

} // namespace moec

#endif // MOE_MODELS_DECODER_H
