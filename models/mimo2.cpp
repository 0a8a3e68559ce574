//===- mimo2.cpp - MiMo-V2-Flash -----------------------------------------===//
//
// arXiv 2601.02780. Windowed layers have sinks, other heads and another base of
// rotation. Values have a factor, which is applied to what attention returns.
// The tensors of a layer say whether it has experts.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildMimo2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.windows.period = WindowTraits::kListed;
  traits.windows.ownRope = true;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.experts.normalize = true;
  traits.experts.whereRouters = true;
  MOE_ASSIGN_OR_RETURN(Transformer mimo, readTransformer(model, traits));
  MOE_ASSIGN_OR_RETURN(double factor,
                       model.params().positive("attention.value_scale", 1.0));
  for (GroupedAttention &attention : mimo.attention) {
    attention.resultScale = factor;
    // The key counts the tokens before the one that looks.
    if (attention.window > 0)
      ++attention.window;
  }
  return buildTransformer(model, mimo);
}

} // namespace moec
