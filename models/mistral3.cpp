//===- mistral3.cpp - Ministral 3 and Mistral Small 3 --------------------===//
//
// arXiv 2601.08584. Queries have a temperature that grows with their position.
// RoPE pairs neighbours.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildMistral3(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.rope.relativeMagnitude = true;
  traits.experts.normalize = true;
  traits.mayBeDense = true;
  MOE_ASSIGN_OR_RETURN(Transformer mistral, readTransformer(model, traits));
  MOE_ASSIGN_OR_RETURN(
      Temperature temperature,
      readTemperature(model.params(), "rope.scaling.original_context_length"));
  for (GroupedAttention &attention : mistral.attention)
    attention.temperature = temperature;
  return buildTransformer(model, mistral);
}

} // namespace moec
