#include "models/Transformer.h"

#include "models/FeedForward.h"
#include "models/GroupedAttention.h"
#include "models/Limits.h"

#include <fmt/format.h>

using mlir::Value;

namespace moec {

namespace {
/// Columns of the first down projection of an expert; 0 without one.
int64_t widthOfExperts(const ModelBuilder &model, const Decoder &decoder) {
  for (int64_t layer = 0; layer < decoder.layers; ++layer)
    for (const char *name : {"ffn_down_exps", "ffn_down.0"})
      if (const GgufTensor *down =
              model.find(fmt::format("blk.{}.{}.weight", layer, name)))
        return int64_t(down->shape[0]);
  return 0;
}
} // namespace

moert::Status buildTransformer(ModelBuilder &model,
                               const TransformerTraits &traits) {
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  MOE_ASSIGN_OR_RETURN(GroupedAttention attention,
                       readGroupedAttention(model, decoder, traits.rope));
  if (traits.windows) {
    MOE_ASSIGN_OR_RETURN(
        attention.window,
        model.params().integer("attention.sliding_window", 1, INT32_MAX));
  }
  RoutedExperts experts = traits.experts;
  experts.inner = widthOfExperts(model, decoder);
  MOE_ASSIGN_OR_RETURN(FeedForward ffn, readFeedForward(model, decoder, experts,
                                                        traits.mayBeDense));
  auto attend = [&](int64_t layer, const std::string &block, Value x) {
    return buildGroupedAttention(model, attention, layer, block, x,
                                 /*windowed=*/layer % 2 == 0);
  };
  auto feedForward = [&](int64_t layer, const std::string &block, Value x) {
    return buildFeedForward(model, ffn, layer, block, x);
  };
  return buildDecoder(model, decoder, {attend, feedForward});
}

} // namespace moec
