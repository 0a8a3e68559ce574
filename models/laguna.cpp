//===- laguna.cpp - Laguna XS and M --------------------------------------===//
//
// The first of every four layers sees all; the others have a window, heads of
// another number and a rotation of their own. A gate multiplies what attention
// returns, by head or by element.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildLaguna(ModelBuilder &model) {
  TransformerTraits traits;
  traits.windows.period = 4;
  traits.windows.firstIsFull = true;
  traits.windows.tokens = 0;
  traits.windows.ownRope = true;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  MOE_ASSIGN_OR_RETURN(Transformer laguna, readTransformer(model, traits));
  const char *softcap = "router_logit_softcapping";
  MOE_ASSIGN_OR_RETURN(double cap, model.params().positive(softcap, 0.0, true));
  if (cap > 0)
    return model.params().error(moert::StatusCode::Unsupported, softcap,
                                "is above 0, which is not supported");
  for (GroupedAttention &attention : laguna.attention)
    attention.gate = mlir::moe::Gate::Softplus;
  return buildTransformer(model, laguna);
}

} // namespace moec
