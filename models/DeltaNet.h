//===- DeltaNet.h - Layers with gated delta nets ----------------*- C++ -*-===//
//
// arXiv 2412.06464 as Qwen3-Next and Qwen3.5 have it: most layers keep a state
// of one size instead of keys and values, every fourth has attention with an
// output gate.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_DELTANET_H
#define MOE_MODELS_DELTANET_H

#include "models/Decoder.h"

namespace moec {

struct DeltaNet {
  int64_t keyHeads = 0, heads = 0; ///< Of keys and queries, and of values.
  int64_t key = 0, value = 0;      ///< Elements of a head.
  int64_t taps = 0;                ///< Of the convolution.
  double eps = 0;                  ///< Of all norms.
  /// Value head h has the key of head h % keyHeads, else h / (heads /
  /// keyHeads).
  bool tiled = false;
};

/// The keys ssm.*.
moert::StatusOr<DeltaNet> readDeltaNet(ModelBuilder &model,
                                       const Decoder &decoder, bool tiled);

/// What `layer` makes of normed rows `x`. Queries, keys, values and output
/// gates come from attn_qkv and attn_gate, or per key head from ssm_in; those
/// of writing and forgetting from ssm_beta and ssm_alpha, or per key head from
/// ssm_ba.
moert::StatusOr<mlir::Value> buildDeltaNet(ModelBuilder &model,
                                           const DeltaNet &net, int64_t layer,
                                           const std::string &block,
                                           mlir::Value x);

/// A model of such layers and of gated attention: which is which is said by
/// attention.recurrent_layers, else by full_attention_interval. FFNs are
/// routed, with a shared expert, or dense.
moert::Status buildDeltaTransformer(ModelBuilder &model, bool tiled);

} // namespace moec

#endif // MOE_MODELS_DELTANET_H
