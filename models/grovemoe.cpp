//===- grovemoe.cpp - GroveMoE --------------------------------------------===//
//
// arXiv 2508.07785. Groups of experts share a small one, which adds a part of
// what it makes of the same rows for each chosen expert of its group. llama.cpp
// gives small experts the result of the large ones.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Limits.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildGrovemoe(ModelBuilder &model) {
  const HyperParams &params = model.params();
  TransformerTraits traits;
  traits.experts.normalize = true;
  MOE_ASSIGN_OR_RETURN(Transformer grove, readTransformer(model, traits));
  for (FeedForward &ffn : grove.feedForward) {
    RoutedExperts &experts = ffn.experts;
    MOE_ASSIGN_OR_RETURN(
        experts.smallInner,
        params.integer("expert_chunk_feed_forward_length", 1, kMostSize));
    MOE_ASSIGN_OR_RETURN(experts.perSmall, params.integer("experts_per_group",
                                                          1, experts.experts));
    MOE_ASSIGN_OR_RETURN(experts.smallScale,
                         params.positive("expert_group_scale"));
    if (experts.experts % experts.perSmall != 0)
      return params.error(moert::StatusCode::InvalidFile, "experts_per_group",
                          "does not divide the experts into equal groups");
  }
  return buildTransformer(model, grove);
}

} // namespace moec
