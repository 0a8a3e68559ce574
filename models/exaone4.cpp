//===- exaone4.cpp - EXAONE 4.0 ------------------------------------------===//
//
// arXiv 2507.11407. Results are normed, not inputs. If there are windows, every
// fourth layer sees all and does not rotate.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildExaone4(ModelBuilder &model) {
  TransformerTraits traits;
  traits.norms = Norms::Results;
  traits.windows.period = 4;
  traits.windows.tokens = 0;
  traits.mayBeDense = true;
  MOE_ASSIGN_OR_RETURN(Transformer exaone, readTransformer(model, traits));
  rotateOnlyWindowed(exaone);
  return buildTransformer(model, exaone);
}

} // namespace moec
