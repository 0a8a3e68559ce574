//===- DeltaNet.h - Layers of gated delta networks --------------*- C++ -*-===//
//
// And of Mamba 2, whose recurrence is that of a delta net without correction.
//
// Gated delta networks (arXiv 2412.06464) as in Qwen3-Next and Qwen3.5: most
// layers have a recurrent state of fixed size instead of keys and values, and
// every fourth layer has attention with an output gate.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_DELTANET_H
#define MOE_MODELS_DELTANET_H

#include "models/Decoder.h"

#include <optional>
#include <vector>

namespace moec {

struct DeltaNet {
  /// Heads of keys and queries; heads of values.
  int64_t keyHeads = 0, heads = 0;
  int64_t key = 0, value = 0; ///< Elements per head.
  int64_t taps = 0;           ///< Length of the convolution.
  double eps = 0;             ///< Epsilon of all norms.
  /// Whether value head h uses key head h % keyHeads; otherwise it uses key
  /// head h / (heads / keyHeads).
  bool tiled = false;
  /// The factor behind the norm; null: SiLU.
  std::optional<mlir::moe::Gate> gate;
};

/// Reads the keys ssm.*.
moert::StatusOr<DeltaNet> readDeltaNet(ModelBuilder &model,
                                       const Decoder &decoder, bool tiled);

/// Builds the Mamba 2 layer (arXiv 2405.21060) of `layer` for normed rows `x`:
/// rows z, x, B, C and dt come from ssm_in, and the result is norm(y *
/// silu(z)), each group with its own rms. `net` is as from readDeltaNet(), keys
/// being B and queries C.
moert::StatusOr<mlir::Value> buildMamba(ModelBuilder &model,
                                        const DeltaNet &net, int64_t layer,
                                        const std::string &block,
                                        mlir::Value x);

/// Builds the delta net of `layer` for normed rows `x`. Queries, keys, values
/// and output gates come from attn_qkv and attn_gate, or grouped by key head
/// from ssm_in. The gates of writing and forgetting come from ssm_beta and
/// ssm_alpha, or grouped by key head from ssm_ba.
moert::StatusOr<mlir::Value> buildDeltaNet(ModelBuilder &model,
                                           const DeltaNet &net, int64_t layer,
                                           const std::string &block,
                                           mlir::Value x);

/// Returns, by layer, whether it has a recurrent state: as
/// attention.recurrent_layers says, or those with no heads of keys in
/// attention.head_count_kv, or all but the last of every
/// full_attention_interval.
moert::StatusOr<std::vector<bool>>
readRecurrentLayers(const ModelBuilder &model, const Decoder &decoder);
/// The first layer that is not; 0 if all are.
int64_t firstAttention(const std::vector<bool> &recurrent);

/// Builds a model of delta-net layers and layers with gated attention.
/// attention.recurrent_layers says which is which, or else
/// full_attention_interval. FFNs are dense, or routed with a shared expert.
moert::Status buildDeltaTransformer(ModelBuilder &model, bool tiled);

} // namespace moec

#endif // MOE_MODELS_DELTANET_H
