//===- FeedForward.h - A model's dense and routed FFNs ----------*- C++ -*-===//

#ifndef MOE_MODELS_FEEDFORWARD_H
#define MOE_MODELS_FEEDFORWARD_H

#include "models/Decoder.h"
#include "models/RoutedExperts.h"

namespace moec {

/// The FFN of a layer: routed experts, or dense.
struct FeedForward {
  bool isRouted = false;
  RoutedExperts experts;
  int64_t inner = 0; ///< Rows of a dense FFN's gate and up.
  bool gated = true; ///< Whether a dense FFN has a gate.
  /// Activation of a dense FFN.
  mlir::moe::Activation activation = mlir::moe::Activation::Silu;
  double limit = 0; ///< Limit of gate and up of a dense FFN; 0: none.
  bool clampsActivated = false; ///< See RoutedExperts.
  double softLimit = 0;         ///< See RoutedExperts.
};

/// Returns the FFN of each layer. Reads the keys leading_dense_block_count (the
/// first layers are dense), interleave_moe_layer_step (of the others, the last
/// of every so many is routed), feed_forward_length and expert_*, and stores
/// them in the model's facts. With `mayBeDense`, a file without expert_count
/// has no routed layers. Dense layers also use the activation of `defaults`,
/// whose whereRouters replaces the first two keys.
moert::StatusOr<std::vector<FeedForward>>
readFeedForward(ModelBuilder &model, const Decoder &decoder,
                const RoutedExperts &defaults, bool mayBeDense = false);

/// Reads limits, which clamp gates before or after their activation:
/// swiglu_clamp_exp of routed experts, and swiglu_clamp_shexp of shared experts
/// and dense FFNs. 0 or no key: none.
moert::Status readLimits(const HyperParams &params,
                         std::vector<FeedForward> &layers,
                         bool clampsActivated);

/// Builds the FFN for normed rows `x`. If experts are routed by the rows with
/// which the layer began, these are `begun`.
moert::StatusOr<mlir::Value> buildFeedForward(ModelBuilder &model,
                                              const FeedForward &config,
                                              const std::string &block,
                                              mlir::Value x,
                                              mlir::Value begun = {});

} // namespace moec

#endif // MOE_MODELS_FEEDFORWARD_H
