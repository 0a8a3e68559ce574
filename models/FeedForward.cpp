#include "models/FeedForward.h"

#include "models/Limits.h"

#include <fmt/format.h>

using mlir::Value;
using moert::StatusOr;

namespace moec {

StatusOr<std::vector<FeedForward>>
readFeedForward(ModelBuilder &model, const Decoder &decoder,
                const RoutedExperts &defaults, bool mayBeDense) {
  const HyperParams &params = model.params();
  int64_t experts = 1;
  if (mayBeDense) {
    MOE_ASSIGN_OR_RETURN(experts,
                         params.integer("expert_count", 0, kMostSize, 0));
  }
  MOE_ASSIGN_OR_RETURN(
      int64_t dense,
      params.integer("leading_dense_block_count", 0, decoder.blocks, 0));
  MOE_ASSIGN_OR_RETURN(int64_t step, params.integer("interleave_moe_layer_step",
                                                    0, kMostLayers, 1));
  // Without a dense layer nothing reads the key.
  params.skip({"feed_forward_length"});
  std::vector<FeedForward> result;
  for (int64_t layer = 0; layer < decoder.built(); ++layer) {
    FeedForward &ffn = result.emplace_back();
    ffn.isRouted =
        experts > 0 &&
        (defaults.whereRouters
             ? model.has(fmt::format("blk.{}.ffn_gate_inp", layer))
             : layer >= dense && step > 0 && (layer + 1) % step == 0);
    ffn.activation = defaults.activation;
    if (ffn.isRouted) {
      MOE_ASSIGN_OR_RETURN(ffn.experts, readRoutedExperts(params, defaults));
      model.facts().experts = ffn.experts.experts;
      model.facts().expertsUsed = ffn.experts.used;
    } else {
      MOE_ASSIGN_OR_RETURN(ffn.inner, params.ofLayer("feed_forward_length",
                                                     layer, 1, kMostSize));
    }
  }
  return result;
}

moert::Status readLimits(const HyperParams &params,
                         std::vector<FeedForward> &layers,
                         bool clampsActivated) {
  auto read = [&](const char *name, size_t layer) -> StatusOr<double> {
    if (!params.has(name))
      return 0.0;
    return params.positiveOfLayer(name, int64_t(layer), /*zeroToo=*/true);
  };
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    FeedForward &ffn = layers[layer];
    MOE_ASSIGN_OR_RETURN(ffn.experts.limit, read("swiglu_clamp_exp", layer));
    MOE_ASSIGN_OR_RETURN(ffn.limit, read("swiglu_clamp_shexp", layer));
    ffn.experts.sharedLimit = ffn.limit;
    ffn.clampsActivated = clampsActivated && ffn.limit > 0;
    ffn.experts.clampsActivated =
        clampsActivated && (ffn.limit > 0 || ffn.experts.limit > 0);
  }
  return moert::Status::ok();
}

StatusOr<Value> buildFeedForward(ModelBuilder &model, const FeedForward &config,
                                 const std::string &block, Value x,
                                 Value begun) {
  if (!config.isRouted && !config.gated)
    return model.plainFfn(x, block, config.inner, config.activation);
  if (!config.isRouted)
    return model.ffn(x, block, "", config.inner, block + "ffn",
                     config.activation, config.limit, config.clampsActivated,
                     config.softLimit);
  return buildRoutedExperts(model, config.experts, block, x,
                            config.experts.readsBegun ? begun : Value());
}

} // namespace moec
