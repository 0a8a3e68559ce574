//===- gemma4.cpp - Gemma 4 26B-A4B, 31B, E4B and E2B ---------------------===//
//
// Windowed layers have heads of another shape. Some layers read the cache of an
// earlier layer, use keys as values, add routed experts to a dense FFN, or add
// rows of a second embedding table. Everything is normed before it is added.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/GroupedAttention.h"
#include "models/Limits.h"
#include "models/RoutedExperts.h"

#include <cmath>
#include <fmt/format.h>

using mlir::Value;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
class Gemma4 {
public:
  explicit Gemma4(ModelBuilder &model) : model(model) {}

  Status build() {
    MOE_RETURN_IF_ERROR(read());
    MOE_ASSIGN_OR_RETURN(Value x, beginForward(model, decoder));
    ids = x.getDefiningOp()->getBlock()->getArgument(0);
    embedded = x;
    if (perLayer > 0)
      MOE_RETURN_IF_ERROR(loadPerLayer());
    for (int64_t layer = 0; layer < decoder.layers; ++layer) {
      block = model.beginLayer(layer);
      MOE_ASSIGN_OR_RETURN(x, attend(layer, x));
      MOE_ASSIGN_OR_RETURN(x, feedForward(layer, x));
      if (perLayer > 0) {
        MOE_ASSIGN_OR_RETURN(x, addPerLayer(layer, x));
      }
      MOE_ASSIGN_OR_RETURN(x, scaleOutput(x));
    }
    model.endLayers();
    return endForward(model, decoder, x);
  }

private:
  Status read() {
    const HyperParams &params = model.params();
    MOE_ASSIGN_OR_RETURN(decoder, readDecoder(model));
    decoder.embeddingScale = std::sqrt(double(decoder.hidden));
    MOE_ASSIGN_OR_RETURN(
        window, params.integer("attention.sliding_window", 1, INT32_MAX));
    MOE_ASSIGN_OR_RETURN(full, readKind(/*windowed=*/false));
    MOE_ASSIGN_OR_RETURN(local, readKind(/*windowed=*/true));
    model.facts().rope = full.rope.getDim();
    MOE_ASSIGN_OR_RETURN(
        int64_t shared,
        params.integer("attention.shared_kv_layers", 0, decoder.layers - 1, 0));
    ownCaches = decoder.layers - shared;
    MOE_ASSIGN_OR_RETURN(
        perLayer,
        params.integer("embedding_length_per_layer_input", 0, kMostSize, 0));
    MOE_ASSIGN_OR_RETURN(decoder.softcap,
                         params.positive("final_logit_softcapping", 0.0, true));
    MOE_ASSIGN_OR_RETURN(int64_t count,
                         params.integer("expert_count", 0, kMostSize, 0));
    if (count == 0)
      return Status::ok();
    RoutedExperts defaults;
    defaults.activation = moe::Activation::Gelu;
    defaults.normalize = true;
    MOE_ASSIGN_OR_RETURN(experts, readRoutedExperts(params, defaults));
    model.facts().experts = experts.experts;
    model.facts().expertsUsed = experts.used;
    return Status::ok();
  }

  /// Reads the properties of attention that all layers of a kind share.
  StatusOr<GroupedAttention> readKind(bool windowed) {
    const HyperParams &params = model.params();
    const char *suffix = windowed ? "_swa" : "";
    GroupedAttention a;
    MOE_ASSIGN_OR_RETURN(
        a.key, params.integer(fmt::format("attention.key_length{}", suffix), 1,
                              kMostSize));
    MOE_ASSIGN_OR_RETURN(
        a.value, params.integer(fmt::format("attention.value_length{}", suffix),
                                a.key, a.key, a.key));
    RopeTraits traits;
    traits.suffix = suffix;
    MOE_ASSIGN_OR_RETURN(Rope rope, readRope(model, traits, a.key));
    a.rope = rope.attr;
    a.eps = decoder.eps;
    a.window = windowed ? window : 0;
    a.scale = 1;
    a.normedValues = true;
    return a;
  }

  StatusOr<GroupedAttention> headsOf(int64_t layer, bool windowed) {
    GroupedAttention a = windowed ? local : full;
    MOE_RETURN_IF_ERROR(readHeads(model, layer, a));
    return a;
  }

  StatusOr<Value> attend(int64_t layer, Value x) {
    MOE_ASSIGN_OR_RETURN(
        bool windowed,
        model.params().flagOfLayer("attention.sliding_window_pattern", layer));
    MOE_ASSIGN_OR_RETURN(GroupedAttention a, headsOf(layer, windowed));
    MOE_ASSIGN_OR_RETURN(Value h,
                         model.rmsNorm(x, block + "attn_norm", decoder.eps));
    MOE_ASSIGN_OR_RETURN(Value q, buildQueries(model, a, block, h));
    Value &cache = caches[windowed];
    int64_t &groups = cacheHeads[windowed];
    if (layer < ownCaches) {
      MOE_ASSIGN_OR_RETURN(cache,
                           buildKeysAndValues(model, a, layer, block, h));
      groups = a.kvHeads;
    } else if (!cache || groups != a.kvHeads) {
      return model.params().error(
          StatusCode::InvalidFile, "attention.shared_kv_layers",
          fmt::format("leaves layer {} without an earlier cache of its kind "
                      "with {} heads",
                      layer, a.kvHeads));
    }
    MOE_ASSIGN_OR_RETURN(Value mixed, attendAndProject(model, a, block, q,
                                                       cache, decoder.hidden));
    return addNormed(model, decoder, block, x, mixed, "post_attention_norm",
                     "attn_add");
  }

  StatusOr<Value> feedForward(int64_t layer, Value x) {
    MOE_ASSIGN_OR_RETURN(
        int64_t inner,
        model.params().ofLayer("feed_forward_length", layer, 1, kMostSize));
    MOE_ASSIGN_OR_RETURN(Value y,
                         model.rmsNorm(x, block + "ffn_norm", decoder.eps));
    MOE_ASSIGN_OR_RETURN(y, model.ffn(y, block, "", inner, block + "ffn",
                                      moe::Activation::Gelu));
    if (experts.experts > 0 && model.has(block + "ffn_gate_inp")) {
      MOE_ASSIGN_OR_RETURN(y, addExperts(x, y));
    }
    return addNormed(model, decoder, block, x, y, "post_ffw_norm", "ffn_add");
  }

  /// Builds dense and routed FFN, each normed. The router has its own norm; its
  /// rows are divided by the square root of their length after the norm's
  /// weight.
  StatusOr<Value> addExperts(Value x, Value dense) {
    MOE_ASSIGN_OR_RETURN(
        Value weight,
        model.vector(block + "ffn_gate_inp.scale", decoder.hidden));
    Value routed = model.create<moe::RmsNormOp>(
        block + "router_norm", x.getType(), x, weight,
        llvm::APFloat(decoder.eps), uint64_t(1));
    routed = model.scale(routed, block + "router_scale",
                         1 / std::sqrt(double(decoder.hidden)));
    MOE_ASSIGN_OR_RETURN(
        Value h, model.rmsNorm(x, block + "pre_ffw_norm_2", decoder.eps));
    MOE_ASSIGN_OR_RETURN(Value mixed,
                         buildRoutedExperts(model, experts, block, h, routed));
    MOE_ASSIGN_OR_RETURN(
        dense, model.rmsNorm(dense, block + "post_ffw_norm_1", decoder.eps));
    return addNormed(model, decoder, block, dense, mixed, "post_ffw_norm_2",
                     "ffn_experts_add");
  }

  Status loadPerLayer() {
    int64_t all = decoder.layers * perLayer;
    MOE_ASSIGN_OR_RETURN(
        table, model.weight("per_layer_token_embd", {decoder.vocab, all}));
    MOE_ASSIGN_OR_RETURN(projection, model.weight("per_layer_model_proj",
                                                  {all, decoder.hidden}));
    MOE_ASSIGN_OR_RETURN(projectionNorm,
                         model.vector("per_layer_proj_norm.weight", perLayer));
    return Status::ok();
  }

  /// Adds the layer's slice of the token's second embedding and of a projection
  /// of its first embedding, gated by x.
  StatusOr<Value> addPerLayer(int64_t layer, Value x) {
    mlir::Type rows = model.rows(perLayer);
    Value own = model.create<moe::EmbeddingOp>(
        block + "per_layer_embd", rows, ids, table, uint64_t(layer * perLayer));
    own = model.scale(own, block + "per_layer_embd_scale",
                      std::sqrt(double(perLayer)));
    Value projected = model.linear(
        embedded, block + "per_layer_proj",
        model.slice(projection, layer * perLayer, perLayer), /*bias=*/{});
    // The projection is not divided by sqrt(hidden size); eps is scaled
    // instead.
    projected = model.create<moe::RmsNormOp>(
        block + "per_layer_proj_norm", rows, projected, projectionNorm,
        llvm::APFloat(decoder.eps * double(decoder.hidden)), uint64_t(1));
    Value sum =
        model.create<moe::AddOp>(block + "per_layer_add", projected, own);
    sum = model.scale(sum, block + "per_layer_scale", std::sqrt(0.5));
    MOE_ASSIGN_OR_RETURN(Value gate,
                         model.linear(x, block + "inp_gate", perLayer));
    Value gated = model.create<moe::ActivationMulOp>(
        block + "per_layer_gate", gate, sum, moe::Activation::Gelu);
    MOE_ASSIGN_OR_RETURN(Value y,
                         model.linear(gated, block + "proj", decoder.hidden));
    return addNormed(model, decoder, block, x, y, "post_norm", "per_layer_out");
  }

  StatusOr<Value> scaleOutput(Value x) {
    const std::string name = block + "layer_output_scale.weight";
    if (!model.find(name))
      return x;
    MOE_ASSIGN_OR_RETURN(std::vector<float> factor, model.floats(name, 1));
    if (!std::isfinite(factor[0]))
      return Status(StatusCode::InvalidFile,
                    fmt::format("{}: tensor \"{}\" holds {}, expected a finite "
                                "number",
                                model.file().paths().front(), name, factor[0]));
    return model.scale(x, block + "layer_output_scale", factor[0]);
  }

  ModelBuilder &model;
  Decoder decoder;
  /// The number of heads is not set; `local` has a window.
  GroupedAttention full, local;
  RoutedExperts experts;
  int64_t window = 0, ownCaches = 0;
  /// Columns for each layer in the second embedding; 0: there is none.
  int64_t perLayer = 0;
  std::string block;
  Value ids, embedded, table, projection, projectionNorm;
  /// The last cache of layers without and with a window, and its KV heads.
  Value caches[2];
  int64_t cacheHeads[2] = {};
};
} // namespace

Status buildGemma4(ModelBuilder &model) { return Gemma4(model).build(); }

} // namespace moec
