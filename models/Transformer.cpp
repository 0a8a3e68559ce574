#include "models/Transformer.h"

#include "models/FeedForward.h"
#include "models/GroupedAttention.h"
#include "models/Limits.h"

#include <cmath>
#include <fmt/format.h>

using mlir::Value;

namespace moec {

namespace {
/// Returns the columns of the first expert's down projection; 0 without
/// experts.
int64_t widthOfExperts(const ModelBuilder &model, const Decoder &decoder) {
  for (int64_t layer = 0; layer < decoder.layers; ++layer)
    for (const char *name : {"ffn_down_exps", "ffn_down.0"})
      if (const GgufTensor *down =
              model.find(fmt::format("blk.{}.{}.weight", layer, name)))
        return int64_t(down->shape[0]);
  return 0;
}

/// Attention of layers without and with a window.
struct Attentions {
  GroupedAttention full, local;
};

moert::StatusOr<Attentions> readAttentions(ModelBuilder &model,
                                           const Decoder &decoder,
                                           const TransformerTraits &traits) {
  const HyperParams &params = model.params();
  Attentions result;
  GroupedAttention &full = result.full, &local = result.local;
  MOE_ASSIGN_OR_RETURN(full, readGroupedAttention(model, decoder, traits.rope));
  MOE_ASSIGN_OR_RETURN(full.softcap,
                       params.positive("attn_logit_softcapping", traits.softcap,
                                       /*zeroToo=*/true));
  if (decoder.layers == traits.layersOfWidthScale)
    full.scale = 1 / std::sqrt(double(decoder.hidden) / double(full.heads));
  local = full;
  if (traits.windows.period == 0)
    return result;
  const int64_t least = traits.windows.tokens == 0 ? 0 : 1;
  MOE_ASSIGN_OR_RETURN(local.window,
                       params.integer("attention.sliding_window", least,
                                      INT32_MAX, traits.windows.tokens));
  if (traits.windows.ownRope) {
    RopeTraits own = traits.rope;
    own.suffix = "_swa";
    own.scaled = false;
    MOE_ASSIGN_OR_RETURN(Rope rope, readRope(model, own, full.rope.getDim()));
    local.rope = rope.attr;
  }
  return result;
}
} // namespace

moert::Status buildTransformer(ModelBuilder &model,
                               const TransformerTraits &traits) {
  const HyperParams &params = model.params();
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  decoder.normsResults = traits.normsResults;
  if (traits.scalesEmbedding)
    decoder.embeddingScale = std::sqrt(double(decoder.hidden));
  MOE_ASSIGN_OR_RETURN(decoder.softcap,
                       params.positive("final_logit_softcapping",
                                       traits.finalSoftcap,
                                       /*zeroToo=*/true));
  MOE_ASSIGN_OR_RETURN(Attentions attentions,
                       readAttentions(model, decoder, traits));
  RoutedExperts experts = traits.experts;
  experts.inner = widthOfExperts(model, decoder);
  MOE_ASSIGN_OR_RETURN(FeedForward ffn, readFeedForward(model, decoder, experts,
                                                        traits.mayBeDense));
  auto attend = [&](int64_t layer, const std::string &block,
                    Value x) -> moert::StatusOr<Value> {
    bool windowed = attentions.local.window > 0;
    if (windowed) {
      MOE_ASSIGN_OR_RETURN(windowed,
                           params.inPeriod("attention.sliding_window_pattern",
                                           layer, traits.windows.period));
    }
    return buildGroupedAttention(model,
                                 windowed ? attentions.local : attentions.full,
                                 layer, block, x, windowed);
  };
  auto feedForward = [&](int64_t layer, const std::string &block, Value x) {
    return buildFeedForward(model, ffn, layer, block, x);
  };
  return buildDecoder(model, decoder, {attend, feedForward});
}

} // namespace moec
