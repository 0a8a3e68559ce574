//===- llama.cpp - Llama, Mistral, Mixtral, InternLM2 ---------------------===//
//
// arXiv 2307.09288. Experts as in Mixtral (arXiv 2401.04088), whose softmax is
// over the chosen experts. Writers of files permuted the rows of queries and
// keys, so RoPE pairs neighbours. Windows in Mistral files are ignored.
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
