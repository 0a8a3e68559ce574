//===- qwen2moe.cpp - Qwen1.5-MoE and Qwen2-57B-A14B ----------------------===//
//
// arXiv 2407.10671. The weights of the chosen experts are not normalised. A
// sigmoid gate per token scales the shared expert.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildQwen2moe(ModelBuilder &model) {
  return buildTransformer(model, TransformerTraits());
}

} // namespace moec
