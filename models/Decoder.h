//===- Decoder.h - The frame around attention and feed-forward --*- C++ -*-===//

#ifndef MOE_MODELS_DECODER_H
#define MOE_MODELS_DECODER_H

#include "models/ModelBuilder.h"

namespace moec {

/// The norms around attention and feed-forward.
enum class Norms {
  Inputs,  ///< x + part(norm(x))
  Results, ///< x + norm(part(x))
  Both,    ///< x + norm(part(norm(x)))
};

/// A decoder-only transformer without the insides of its blocks.
struct Decoder {
  int64_t hidden = 0, vocab = 0;
  int64_t layers = 0; ///< Layers of @forward.
  int64_t drafts = 0; ///< Layers of @draft, which follow them: 0 or 1.
  int64_t blocks = 0; ///< Blocks in the file, including all those for MTP.
  Norms norms = Norms::Inputs;
  /// Whether norms subtract the mean and may have a bias (LayerNorm, arXiv
  /// 1607.06450); otherwise they are RMS norms.
  bool centres = false;
  double eps = 0;        ///< Epsilon of the norms of inputs.
  double resultsEps = 0; ///< Epsilon of the norms of results.
  /// Whether feed-forward reads the same normed rows as attention (arXiv
  /// 2204.02311, section 2), instead of the sum after attention.
  bool parallel = false;
  /// Whether rows of position_embd are added to embedded rows.
  bool embedsPositions = false;
  bool normsHead = true; ///< Whether the head reads normed rows.
  /// Whether embedded rows are normed, without a weight.
  bool normsEmbedding = false;
  /// Factor on embedded rows; Gemma uses it because its embeddings are small.
  double embeddingScale = 1;
  /// Factors on what attention and feed-forward add, and on logits.
  double residualScale = 1, logitScale = 1;
  double softcap = 0; ///< c in c * tanh(logits / c); 0: no softcap.

  /// Layers that are built, which the first blocks of the file hold.
  int64_t built() const { return layers + drafts; }
};

/// The properties of an architecture that readDecoder() needs.
struct DecoderTraits {
  bool centres = false; ///< Same meaning as Decoder::centres.
  /// Whether buildDecoder() can build the first block for multi-token
  /// prediction: it reads rows behind the output norm.
  bool drafts = false;
};

/// Reads the keys that every architecture has, stores them in the model's
/// facts, and skips the blocks for multi-token prediction
/// (nextn_predict_layers), but for the first one if the user wants it. The
/// epsilon is that of RMS norms, or if norms centre rows,
/// attention.layer_norm_epsilon.
moert::StatusOr<Decoder> readDecoder(ModelBuilder &model,
                                     DecoderTraits traits = {});

/// Builders of a block's parts. Each maps normed rows [T, hidden] of layer
/// `layer`, whose tensors begin with `block` ("blk.3."), to rows that are added
/// to the residual stream. Feed-forward also gets the rows with which the layer
/// began, `begun`.
struct DecoderParts {
  using Attention = llvm::function_ref<moert::StatusOr<mlir::Value>(
      int64_t layer, const std::string &block, mlir::Value x)>;
  using FeedForward = llvm::function_ref<moert::StatusOr<mlir::Value>(
      int64_t layer, const std::string &block, mlir::Value x,
      mlir::Value begun)>;
  Attention attention;
  FeedForward feedForward;
};

/// Begins @forward: looks up rows [T, hidden] of token_embd, adds those of
/// positions and norms them if the decoder does so, and multiplies them by
/// embeddingScale.
moert::StatusOr<mlir::Value> beginForward(ModelBuilder &model,
                                          const Decoder &decoder);

/// Ends @forward with `x` and builds @logits: output_norm and output (the
/// embedding table if the file has no output), then logitScale and the softcap.
/// If the file has the classifier cls.output, @logits is output_norm and this,
/// and the facts get its labels.
moert::Status endForward(ModelBuilder &model, const Decoder &decoder,
                         mlir::Value x);

/// Returns x + norm(y) * residualScale, with the norm's weight `block``norm`;
/// the sum is labelled `add`.
moert::StatusOr<mlir::Value>
addNormed(ModelBuilder &model, const Decoder &decoder, const std::string &block,
          mlir::Value x, mlir::Value y, const char *norm, const char *add);

/// Builds @forward, and if there is a layer for it, @draft and @draft_logits as
/// importModel() describes them. @forward: the embedding, then for each layer x
/// += attention(attn_norm(x)) and x += feedForward(ffn_norm(x)); some files
/// call the latter norm post_attention_norm or attn_output_norm. The norms of
/// results are post_attention_norm and post_ffw_norm. A parallel layer is x +=
/// attention(attn_norm(x)) + feedForward(attn_norm(x)); if the file has
/// attn_norm_2, attention reads that. @logits is as in endForward().
moert::Status buildDecoder(ModelBuilder &model, const Decoder &decoder,
                           const DecoderParts &parts);

} // namespace moec

#endif // MOE_MODELS_DECODER_H
