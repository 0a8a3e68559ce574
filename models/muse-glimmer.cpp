//===- muse-glimmer.cpp - Muse Glimmer -----------------------------------===//
//
// Every fourth layer sees all and does not rotate. Embeddings are normed; a
// gate multiplies what attention returns; inputs and results of both parts are
// normed, results with an epsilon of 1e-8. RoPE pairs neighbours.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildMuseGlimmer(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.norms = Norms::Both;
  traits.windows.period = 4;
  traits.windows.ownRope = true;
  traits.windows.scaledRope = true;
  traits.mayBeDense = true;
  MOE_ASSIGN_OR_RETURN(Transformer muse, readTransformer(model, traits));
  rotateOnlyWindowed(muse);
  muse.decoder.normsEmbedding = true;
  muse.decoder.resultsEps = 1e-8;
  MOE_ASSIGN_OR_RETURN(muse.decoder.logitScale,
                       model.params().positive("logit_scale"));
  return buildTransformer(model, muse);
}

} // namespace moec
