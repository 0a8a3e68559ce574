#include "models/Transformer.h"

#include "models/Limits.h"

#include <cmath>
#include <fmt/format.h>

using mlir::Value;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Returns the columns of the first expert's down projection; 0 without
/// experts.
int64_t widthOfExperts(const ModelBuilder &model, const Decoder &decoder) {
  for (int64_t layer = 0; layer < decoder.built(); ++layer)
    for (const char *name : {"ffn_down_exps", "ffn_down.0"})
      if (const GgufTensor *down =
              model.find(fmt::format("blk.{}.{}.weight", layer, name)))
        return int64_t(down->shape[0]);
  return 0;
}

constexpr const char *kPattern = "attention.sliding_window_pattern";

/// Returns the attention of layers with a window, given that of others.
StatusOr<GroupedAttention> readWindowed(ModelBuilder &model,
                                        const TransformerTraits &traits,
                                        GroupedAttention a) {
  const HyperParams &params = model.params();
  const WindowTraits &windows = traits.windows;
  MOE_ASSIGN_OR_RETURN(a.window, params.integer("attention.sliding_window",
                                                windows.tokens == 0 ? 0 : 1,
                                                INT32_MAX, windows.tokens));
  if (a.window == 0 || !windows.ownRope)
    return a;
  RopeTraits own = traits.rope;
  own.suffix = "_swa";
  own.base = windows.ownBase.value_or(a.rope.getBase());
  own.scaled = windows.scaledRope;
  own.divisor = 1;
  MOE_ASSIGN_OR_RETURN(
      Rope rope,
      readRope(model, own, a.key, a.rope.getDim() * traits.rope.divisor));
  a.rope = rope.attr;
  return a;
}

/// Returns the attention of each layer.
StatusOr<std::vector<GroupedAttention>>
readAttention(ModelBuilder &model, const Decoder &decoder,
              const TransformerTraits &traits) {
  const HyperParams &params = model.params();
  const WindowTraits &windows = traits.windows;
  std::vector<bool> attends(size_t(decoder.built()), true);
  if (traits.mayHaveStates)
    for (int64_t layer = 0; layer < decoder.built(); ++layer) {
      MOE_ASSIGN_OR_RETURN(attends[size_t(layer)], hasAttention(model, layer));
    }
  // Without any attention, sizes of heads do not matter.
  int64_t first = llvm::find(attends, true) - attends.begin();
  if (first == decoder.built())
    return std::vector<GroupedAttention>(size_t(decoder.built()));
  MOE_ASSIGN_OR_RETURN(
      GroupedAttention full,
      readGroupedAttention(model, decoder, traits.rope, first));
  MOE_ASSIGN_OR_RETURN(full.softcap,
                       params.positive("attn_logit_softcapping", traits.softcap,
                                       /*zeroToo=*/true));
  GroupedAttention local = full;
  if (windows.period != 0) {
    MOE_ASSIGN_OR_RETURN(local, readWindowed(model, traits, full));
  }
  if (windows.period == WindowTraits::kListed && !params.has(kPattern))
    return params.error(StatusCode::InvalidFile, kPattern, "is missing");
  std::vector<GroupedAttention> layers;
  for (int64_t layer = 0; layer < decoder.built(); ++layer) {
    if (!attends[size_t(layer)]) {
      layers.emplace_back();
      continue;
    }
    bool windowed = local.window > 0;
    if (windowed) {
      MOE_ASSIGN_OR_RETURN(windowed,
                           params.inPeriod(kPattern, layer, windows.period,
                                           windows.firstIsFull));
    }
    GroupedAttention &a = layers.emplace_back(windowed ? local : full);
    MOE_RETURN_IF_ERROR(readHeads(model, layer, a));
  }
  return layers;
}
} // namespace

StatusOr<Transformer> readTransformer(ModelBuilder &model,
                                      const TransformerTraits &traits) {
  Transformer result;
  Decoder &decoder = result.decoder;
  MOE_ASSIGN_OR_RETURN(decoder, readDecoder(model, {.centres = traits.centres,
                                                    .drafts = traits.drafts}));
  decoder.norms = traits.norms;
  decoder.parallel = traits.parallel;
  if (traits.scalesEmbedding)
    decoder.embeddingScale = std::sqrt(double(decoder.hidden));
  MOE_ASSIGN_OR_RETURN(decoder.softcap,
                       model.params().positive("final_logit_softcapping",
                                               traits.finalSoftcap,
                                               /*zeroToo=*/true));
  MOE_ASSIGN_OR_RETURN(result.attention, readAttention(model, decoder, traits));
  RoutedExperts experts = traits.experts;
  experts.inner = widthOfExperts(model, decoder);
  MOE_ASSIGN_OR_RETURN(
      result.feedForward,
      readFeedForward(model, decoder, experts, traits.mayBeDense));
  for (FeedForward &ffn : result.feedForward)
    ffn.gated = traits.gated;
  return result;
}

void rotateOnlyWindowed(Transformer &transformer) {
  auto hasWindow = [](const GroupedAttention &a) { return a.window > 0; };
  if (llvm::none_of(transformer.attention, hasWindow))
    return;
  for (GroupedAttention &a : transformer.attention)
    if (!hasWindow(a))
      a.rope = {};
}

void scaleByWidth(Transformer &transformer) {
  for (GroupedAttention &a : transformer.attention)
    a.scale =
        1 / std::sqrt(double(transformer.decoder.hidden) / double(a.heads));
}

moert::Status buildTransformer(ModelBuilder &model,
                               const Transformer &transformer,
                               DecoderParts::Attention mix) {
  auto attend = [&](int64_t layer, const std::string &block,
                    Value x) -> StatusOr<Value> {
    const GroupedAttention &attention = transformer.attention[size_t(layer)];
    if (attention.kvHeads == 0)
      return mix(layer, block, x);
    BlockChoice blocks;
    if (transformer.choose) {
      MOE_ASSIGN_OR_RETURN(blocks, transformer.choose(layer, block, x));
    }
    return buildGroupedAttention(model, attention, layer, block, x, blocks);
  };
  auto feedForward = [&](int64_t layer, const std::string &block, Value x,
                         Value begun) {
    return buildFeedForward(model, transformer.feedForward[size_t(layer)],
                            block, x, begun);
  };
  return buildDecoder(model, transformer.decoder, {attend, feedForward});
}

moert::Status buildTransformer(ModelBuilder &model,
                               const TransformerTraits &traits) {
  MOE_ASSIGN_OR_RETURN(Transformer transformer, readTransformer(model, traits));
  return buildTransformer(model, transformer);
}

} // namespace moec
