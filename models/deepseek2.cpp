//===- deepseek2.cpp - DeepSeek-V2, V3, R1, Kimi-K2, GLM-4.7-Flash --------===//
//
// Multi-head latent attention and routed experts: arXiv 2405.04434 and
// 2412.19437.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/FeedForward.h"
#include "models/LatentAttention.h"

using mlir::Value;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
/// Returns the scoring of files without the key: softmax, except for
/// GLM-4.7-Flash, which uses sigmoid.
moe::Scoring scoringWithoutKey(const Decoder &decoder) {
  bool glm =
      (decoder.blocks == 47 || decoder.blocks == 48) && decoder.vocab == 154880;
  return glm ? moe::Scoring::Sigmoid : moe::Scoring::Softmax;
}
} // namespace

moert::Status buildDeepseek2(ModelBuilder &model) {
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model, {.drafts = true}));
  MOE_ASSIGN_OR_RETURN(LatentAttention attention,
                       readLatentAttention(model, decoder.eps));
  RoutedExperts defaults;
  defaults.scoring = scoringWithoutKey(decoder);
  MOE_ASSIGN_OR_RETURN(std::vector<FeedForward> ffn,
                       readFeedForward(model, decoder, defaults));
  auto attend = [&](int64_t layer, const std::string &block, Value x) {
    return buildLatentAttention(model, attention, layer, block, x);
  };
  auto feedForward = [&](int64_t layer, const std::string &block, Value x,
                         Value /*begun*/) {
    return buildFeedForward(model, ffn[size_t(layer)], block, x);
  };
  return buildDecoder(model, decoder, {attend, feedForward});
}

} // namespace moec
