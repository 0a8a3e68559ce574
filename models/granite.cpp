//===- granite.cpp - Granite 3 and 4, with and without experts ------------===//
//
// arXiv 2405.04324. Embeddings, scores, residuals and logits have a factor
// each, as muP derives them (arXiv 2203.03466). RoPE pairs neighbours; some
// models do not rotate at all. In Granite 4's hybrid models most layers are
// Mamba 2.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/DeltaNet.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildGranite(ModelBuilder &model) {
  const HyperParams &params = model.params();
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.experts.normalize = true;
  traits.mayBeDense = true;
  traits.mayHaveStates = params.has("ssm.conv_kernel");
  MOE_ASSIGN_OR_RETURN(Transformer granite, readTransformer(model, traits));
  Decoder &decoder = granite.decoder;
  MOE_ASSIGN_OR_RETURN(decoder.embeddingScale,
                       params.positive("embedding_scale", 1.0));
  MOE_ASSIGN_OR_RETURN(decoder.residualScale,
                       params.positive("residual_scale", 1.0));
  MOE_ASSIGN_OR_RETURN(double divisor, params.positive("logit_scale"));
  decoder.logitScale = 1 / divisor;
  MOE_ASSIGN_OR_RETURN(bool rotates,
                       params.flag("rope.scaling.finetuned", true));
  if (!rotates)
    for (GroupedAttention &attention : granite.attention)
      attention.rope = {};
  if (!traits.mayHaveStates)
    return buildTransformer(model, granite);
  MOE_ASSIGN_OR_RETURN(DeltaNet mamba,
                       readDeltaNet(model, decoder, /*tiled=*/false));
  auto mix = [&](int64_t layer, const std::string &block, mlir::Value x) {
    return buildMamba(model, mamba, layer, block, x);
  };
  return buildTransformer(model, granite, mix);
}

} // namespace moec
