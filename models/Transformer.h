//===- Transformer.h - Models with GQA and FFNs -----------------*- C++ -*-===//
//
// Most architectures share this graph. They differ in optional tensors, in
// keys, and in the properties below, which files do not state.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_TRANSFORMER_H
#define MOE_MODELS_TRANSFORMER_H

#include "models/Rope.h"
#include "models/RoutedExperts.h"

namespace moec {

/// Layers that only see the last attention.sliding_window tokens.
struct WindowTraits {
  /// All layers except the last of every `period` have a window, unless
  /// attention.sliding_window_pattern says otherwise (HyperParams::inPeriod).
  /// 0: no layer has one, whatever the file says.
  int64_t period = 0;
  /// Default of attention.sliding_window; 0: by default no layer has a window.
  /// Without a default, the key is required.
  std::optional<int64_t> tokens;
  /// Whether windowed layers rotate with rope.freq_base_swa and without
  /// rope.scaling.
  bool ownRope = false;
};

struct TransformerTraits {
  RopeTraits rope;
  WindowTraits windows;
  bool scalesEmbedding = false; ///< By the square root of the hidden size.
  bool normsResults = false;    ///< See Decoder.
  /// Defaults of attn_logit_softcapping and final_logit_softcapping.
  double softcap = 0, finalSoftcap = 0;
  /// The model with this number of layers divides scores by sqrt(hidden size /
  /// heads), which differs from the length of its keys.
  int64_t layersOfWidthScale = 0;
  /// Defaults for missing keys of experts; `inner` is taken from the tensors.
  RoutedExperts experts;
  bool mayBeDense = false; ///< Whether expert_count may be missing.
};

moert::Status buildTransformer(ModelBuilder &model,
                               const TransformerTraits &traits);

} // namespace moec

#endif // MOE_MODELS_TRANSFORMER_H
