//===- FeedForward.h - Dense and routed layers of one model -----*- C++ -*-===//

#ifndef MOE_MODELS_FEEDFORWARD_H
#define MOE_MODELS_FEEDFORWARD_H

#include "models/Decoder.h"
#include "models/RoutedExperts.h"

namespace moec {

/// Layers before the first routed one have one FFN.
struct FeedForward {
  int64_t denseLayers = 0, denseInner = 0;
  RoutedExperts experts; ///< Of the others.
  mlir::moe::Activation activation =
      mlir::moe::Activation::Silu; ///< Of one FFN.
};

/// The keys leading_dense_block_count, feed_forward_length and expert_*, noted
/// in the model's facts. `mayBeDense`: without expert_count no layer is routed.
/// The activation of `defaults` is that of dense layers too.
moert::StatusOr<FeedForward> readFeedForward(ModelBuilder &model,
                                             const Decoder &decoder,
                                             const RoutedExperts &defaults,
                                             bool mayBeDense = false);

moert::StatusOr<mlir::Value>
buildFeedForward(ModelBuilder &model, const FeedForward &config, int64_t layer,
                 const std::string &block, mlir::Value x);

} // namespace moec

#endif // MOE_MODELS_FEEDFORWARD_H
