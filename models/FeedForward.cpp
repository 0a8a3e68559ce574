#include "models/FeedForward.h"

#include "models/Limits.h"

using mlir::Value;
using moert::StatusOr;

namespace moec {

StatusOr<FeedForward> readFeedForward(ModelBuilder &model,
                                      const Decoder &decoder,
                                      const RoutedExperts &defaults,
                                      bool mayBeDense) {
  const HyperParams &params = model.params();
  FeedForward config;
  config.activation = defaults.activation;
  int64_t experts = 1;
  if (mayBeDense) {
    MOE_ASSIGN_OR_RETURN(experts,
                         params.integer("expert_count", 0, kMostSize, 0));
  }
  MOE_ASSIGN_OR_RETURN(
      int64_t dense,
      params.integer("leading_dense_block_count", 0, decoder.blocks, 0));
  config.denseLayers =
      experts == 0 ? decoder.layers : std::min(dense, decoder.layers);
  if (config.denseLayers > 0) {
    MOE_ASSIGN_OR_RETURN(config.denseInner,
                         params.integer("feed_forward_length", 1, kMostSize));
  }
  if (config.denseLayers < decoder.layers) {
    MOE_ASSIGN_OR_RETURN(config.experts, readRoutedExperts(params, defaults));
  }
  model.facts().experts = config.experts.experts;
  model.facts().expertsUsed = config.experts.used;
  return config;
}

StatusOr<Value> buildFeedForward(ModelBuilder &model, const FeedForward &config,
                                 int64_t layer, const std::string &block,
                                 Value x) {
  return layer < config.denseLayers
             ? model.ffn(x, block, "", config.denseInner, block + "ffn",
                         config.activation)
             : buildRoutedExperts(model, config.experts, block, x);
}

} // namespace moec
