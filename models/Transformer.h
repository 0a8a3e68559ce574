//===- Transformer.h - Grouped attention and (routed) FFNs ------*- C++ -*-===//
//
// Most architectures are one graph, told apart by tensors that are there or
// not, keys, and the few things below that files do not say.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_TRANSFORMER_H
#define MOE_MODELS_TRANSFORMER_H

#include "models/Rope.h"
#include "models/RoutedExperts.h"

namespace moec {

/// Layers that see the last attention.sliding_window tokens alone.
struct WindowTraits {
  /// All layers but the last of every `period` have a window, unless
  /// attention.sliding_window_pattern is there (HyperParams::inPeriod). 0: no
  /// layer has one, whatever the file says.
  int64_t period = 0;
  /// Stands for an absent attention.sliding_window; 0: then no layer has a
  /// window. Without it the key has to be there.
  std::optional<int64_t> tokens;
  /// Layers with a window rotate by rope.freq_base_swa and without
  /// rope.scaling.
  bool ownRope = false;
};

struct TransformerTraits {
  RopeTraits rope;
  WindowTraits windows;
  bool scalesEmbedding = false; ///< By the root of the hidden size.
  bool normsResults = false;    ///< See Decoder.
  /// Stand for absent keys attn_logit_softcapping and final_logit_softcapping.
  double softcap = 0, finalSoftcap = 0;
  /// The model with so many layers divides scores by the root of hidden size /
  /// heads, which is not the length of its keys.
  int64_t layersOfWidthScale = 0;
  /// What stands for keys of experts that the file does not have; `inner` is
  /// then as wide as its tensors.
  RoutedExperts experts;
  bool mayBeDense = false; ///< Files without expert_count are without experts.
};

moert::Status buildTransformer(ModelBuilder &model,
                               const TransformerTraits &traits);

} // namespace moec

#endif // MOE_MODELS_TRANSFORMER_H
