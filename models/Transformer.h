//===- Transformer.h - Models with GQA and FFNs -----------------*- C++ -*-===//
//
// Most architectures share this graph. They differ in optional tensors, which
// builders of parts find by themselves; in keys; and in the traits below, which
// files do not state. A builder reads a Transformer, may change what its layers
// have, and builds it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_TRANSFORMER_H
#define MOE_MODELS_TRANSFORMER_H

#include "models/FeedForward.h"
#include "models/GroupedAttention.h"

#include <functional>

namespace moec {

/// Layers that only see the last attention.sliding_window tokens.
struct WindowTraits {
  /// A period for files in which attention.sliding_window_pattern must have a
  /// flag for each layer.
  static constexpr int64_t kListed = -1;
  /// A period of which no layer is the last.
  static constexpr int64_t kAll = int64_t(1) << 40;

  /// All layers except the last of every `period` have a window, unless
  /// attention.sliding_window_pattern says otherwise (HyperParams::inPeriod).
  /// 0: no layer has one, whatever the file says.
  int64_t period = 0;
  /// Whether the first layer of every period is full, not the last.
  bool firstIsFull = false;
  /// Default of attention.sliding_window; 0: by default no layer has a window.
  /// Without a default, the key is required.
  std::optional<int64_t> tokens;
  /// Whether windowed layers rotate with rope.freq_base_swa and
  /// rope.dimension_count_swa. By default these are those of other layers.
  bool ownRope = false;
  bool scaledRope = false; ///< Whether rope.scaling applies to an ownRope.
  /// Default of rope.freq_base_swa, if it differs.
  std::optional<double> ownBase;
};

struct TransformerTraits {
  RopeTraits rope;
  WindowTraits windows;
  Norms norms = Norms::Inputs;
  bool centres = false, parallel = false; ///< See Decoder.
  /// Embedded rows times the square root of the hidden size.
  bool scalesEmbedding = false;
  /// Defaults of attn_logit_softcapping and final_logit_softcapping.
  double softcap = 0, finalSoftcap = 0;
  /// Defaults for missing keys of experts; `inner` is taken from the tensors.
  RoutedExperts experts;
  bool mayBeDense = false; ///< Whether expert_count may be missing.
  bool gated = true;       ///< Whether dense FFNs have a gate.
  /// Whether layers may have a state instead of attention (hasAttention()).
  bool mayHaveStates = false;
  bool drafts = false; ///< See DecoderTraits.
};

struct Transformer {
  Decoder decoder;
  /// Attention of each layer; without kvHeads if the layer has a state instead.
  std::vector<GroupedAttention> attention;
  std::vector<FeedForward> feedForward; ///< One for each layer.
  /// Returns the blocks that a layer attends to, for normed rows; null: every
  /// layer attends to all positions.
  std::function<moert::StatusOr<BlockChoice>(
      int64_t layer, const std::string &block, mlir::Value x)>
      choose;
};

moert::StatusOr<Transformer> readTransformer(ModelBuilder &model,
                                             const TransformerTraits &traits);

/// Leaves queries and keys of layers without a window as they are, if other
/// layers have one.
void rotateOnlyWindowed(Transformer &transformer);

/// Divides scores by the square root of hidden size / heads, which may differ
/// from the length of keys.
void scaleByWidth(Transformer &transformer);

/// Builds a transformer; `mix` builds layers with a state.
moert::Status buildTransformer(ModelBuilder &model,
                               const Transformer &transformer,
                               DecoderParts::Attention mix = nullptr);
/// Reads and builds.
moert::Status buildTransformer(ModelBuilder &model,
                               const TransformerTraits &traits);

} // namespace moec

#endif // MOE_MODELS_TRANSFORMER_H
