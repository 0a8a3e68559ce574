//===- llama.cpp - Llama, Mistral, Mixtral, InternLM2 ---------------------===//
//
// arXiv 2307.09288; experts as in Mixtral, arXiv 2401.04088, whose softmax is
// over the chosen ones. Writers permuted the rows of queries and keys, so that
// RoPE pairs neighbours. Windows that Mistral files name are not used.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildLlama(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.experts.normalize = true;
  traits.mayBeDense = true;
  return buildTransformer(model, traits);
}

} // namespace moec
