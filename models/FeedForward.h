//===- FeedForward.h - A model's dense and routed FFNs ----------*- C++ -*-===//

#ifndef MOE_MODELS_FEEDFORWARD_H
#define MOE_MODELS_FEEDFORWARD_H

#include "models/Decoder.h"
#include "models/RoutedExperts.h"

namespace moec {

/// The FFNs of a model. The first `denseLayers` layers have a dense FFN, the
/// others routed experts.
struct FeedForward {
  int64_t denseLayers = 0, denseInner = 0;
  RoutedExperts experts; ///< Of routed layers.
  mlir::moe::Activation activation =
      mlir::moe::Activation::Silu; ///< Of dense layers.
};

/// Reads the keys leading_dense_block_count, feed_forward_length and expert_*,
/// and stores them in the model's facts. With `mayBeDense`, a file without
/// expert_count has no routed layers. Dense layers also use the activation of
/// `defaults`.
moert::StatusOr<FeedForward> readFeedForward(ModelBuilder &model,
                                             const Decoder &decoder,
                                             const RoutedExperts &defaults,
                                             bool mayBeDense = false);

moert::StatusOr<mlir::Value>
buildFeedForward(ModelBuilder &model, const FeedForward &config, int64_t layer,
                 const std::string &block, mlir::Value x);

} // namespace moec

#endif // MOE_MODELS_FEEDFORWARD_H
