//===- cohere2moe.cpp - Command A with experts ---------------------------===//
//
// Cohere 2 with experts. The first of every four layers sees all; it does not
// rotate unless its FFN is dense. Routed and shared experts are averaged.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildCohere2moe(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.parallel = true;
  traits.windows.period = 4;
  traits.windows.firstIsFull = true;
  traits.windows.ownRope = true;
  traits.windows.scaledRope = true;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  // Older files have RMS norms.
  const HyperParams &params = model.params();
  traits.centres = params.has("attention.layer_norm_epsilon");
  MOE_ASSIGN_OR_RETURN(Transformer command, readTransformer(model, traits));
  for (size_t layer = 0; layer < command.attention.size(); ++layer) {
    FeedForward &ffn = command.feedForward[layer];
    GroupedAttention &attention = command.attention[layer];
    if (ffn.isRouted && attention.window == 0)
      attention.rope = {};
    ffn.experts.sumScale = 0.5;
  }
  MOE_ASSIGN_OR_RETURN(command.decoder.logitScale,
                       params.positive("logit_scale"));
  return buildTransformer(model, command);
}

} // namespace moec
