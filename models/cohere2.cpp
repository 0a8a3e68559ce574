//===- cohere2.cpp - Command A and Command R7B ---------------------------===//
//
// arXiv 2504.00698. Attention and FFN read the same LayerNorm, which has no
// bias. Every fourth layer sees all and does not rotate. RoPE pairs neighbours.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildCohere2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.centres = true;
  traits.parallel = true;
  traits.windows.period = 4;
  traits.windows.ownRope = true;
  traits.windows.scaledRope = true;
  traits.mayBeDense = true;
  MOE_ASSIGN_OR_RETURN(Transformer command, readTransformer(model, traits));
  rotateOnlyWindowed(command);
  MOE_ASSIGN_OR_RETURN(command.decoder.logitScale,
                       model.params().positive("logit_scale"));
  return buildTransformer(model, command);
}

} // namespace moec
