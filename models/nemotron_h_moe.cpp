//===- nemotron_h_moe.cpp - Nemotron 3 ------------------------------------===//
//
// arXiv 2512.20856. Each layer is one thing: Mamba 2, attention without RoPE,
// or an FFN of experts without gates, whose activation is ReLU squared. Larger
// models' experts work on latents of fewer columns. The keys of a layer say
// which it is: heads of keys are of attention, an inner size is of experts.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/DeltaNet.h"
#include "models/Limits.h"
#include "models/Transformer.h"

using mlir::Value;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
struct Nemotron {
  Transformer transformer;
  DeltaNet mamba;
};

StatusOr<Nemotron> readNemotron(ModelBuilder &model) {
  const HyperParams &params = model.params();
  TransformerTraits traits;
  traits.mayHaveStates = true;
  traits.rope.rotates = false;
  traits.experts.scoring = moe::Scoring::Sigmoid;
  traits.experts.activation = moe::Activation::Relu;
  traits.experts.gated = false;
  MOE_ASSIGN_OR_RETURN(traits.experts.latent,
                       params.integer("moe_latent_size", 0, kMostSize, 0));
  Nemotron nemotron;
  MOE_ASSIGN_OR_RETURN(nemotron.transformer, readTransformer(model, traits));
  MOE_ASSIGN_OR_RETURN(nemotron.mamba,
                       readDeltaNet(model, nemotron.transformer.decoder,
                                    /*tiled=*/false));
  return nemotron;
}

/// Builds what `layer` is for normed rows `x`.
StatusOr<Value> buildMixer(ModelBuilder &model, const Nemotron &nemotron,
                           int64_t layer, const std::string &block, Value x) {
  MOE_ASSIGN_OR_RETURN(
      int64_t inner,
      model.params().ofLayer("feed_forward_length", layer, 0, kMostSize));
  const GroupedAttention &attention =
      nemotron.transformer.attention[size_t(layer)];
  if (inner > 0)
    return buildFeedForward(
        model, nemotron.transformer.feedForward[size_t(layer)], block, x);
  if (attention.kvHeads > 0)
    return buildGroupedAttention(model, attention, layer, block, x);
  return buildMamba(model, nemotron.mamba, layer, block, x);
}
} // namespace

moert::Status buildNemotronH(ModelBuilder &model) {
  MOE_ASSIGN_OR_RETURN(Nemotron nemotron, readNemotron(model));
  const Decoder &decoder = nemotron.transformer.decoder;
  MOE_ASSIGN_OR_RETURN(Value x, beginForward(model, decoder));
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    const std::string block = model.beginLayer(layer);
    MOE_ASSIGN_OR_RETURN(Value y,
                         model.rmsNorm(x, block + "attn_norm", decoder.eps));
    MOE_ASSIGN_OR_RETURN(y, buildMixer(model, nemotron, layer, block, y));
    x = model.create<moe::AddOp>(block + "add", x, y);
  }
  model.endLayers();
  return endForward(model, decoder, x);
}

} // namespace moec
