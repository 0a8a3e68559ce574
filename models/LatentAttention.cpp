#include "models/LatentAttention.h"

#include "models/Limits.h"
#include "models/Rope.h"

#include <cmath>

using mlir::Value;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
/// Returns the factor on attention scores that comes with YaRN: mscale^2 with
/// mscale = 1 + yarn_log_multiplier * ln(factor). YaRN's generic magnitude on q
/// and k is not used, because it would apply the factor a second time.
StatusOr<double> readScoreFactor(const HyperParams &params, const Rope &rope) {
  MOE_ASSIGN_OR_RETURN(
      double multiplier,
      params.within("rope.scaling.yarn_log_multiplier", 0, kMostScale, 0.0));
  return std::pow(1 + multiplier * std::log(rope.yarnFactor), 2);
}

/// Returns a rope of as many elements that turns none of them, as the latent's
/// store needs one: after 2^31 positions the angle is below 1e-20.
moe::RopeAttr stillRope(moe::RopeAttr rope) {
  constexpr double kNever = 1e30;
  std::vector<moe::Real> divisors(size_t(rope.getDim() / 2), kNever);
  return moe::RopeAttr::get(rope.getContext(), rope.getDim(), rope.getBase(),
                            /*factor=*/1.0, /*original_context=*/0,
                            rope.getBetaFast(), rope.getBetaSlow(),
                            rope.getRounded(), /*magnitude=*/1.0, divisors,
                            rope.getNeox(), /*reversed=*/false);
}
} // namespace

StatusOr<LatentAttention> readLatentAttention(ModelBuilder &model, double eps,
                                              bool rotates) {
  const HyperParams &params = model.params();
  LatentAttention attention;
  attention.eps = eps;
  constexpr RopeTraits kTraits{
      .neox = false, .rounded = true, .magnitude = false};
  constexpr const char *kShared = "rope.dimension_count";
  Rope rope;
  attention.shared = 0;
  if (rotates || params.has(kShared)) {
    MOE_ASSIGN_OR_RETURN(attention.shared,
                         params.integer(kShared, rotates ? 2 : 0, kMostSize));
  }
  if (attention.shared > 0) {
    MOE_ASSIGN_OR_RETURN(rope, readRope(model, kTraits));
    attention.rope = rotates ? rope.attr : stillRope(rope.attr);
  }
  attention.rotates = rotates;
  MOE_ASSIGN_OR_RETURN(double scoreFactor, readScoreFactor(params, rope));
  MOE_ASSIGN_OR_RETURN(attention.heads,
                       params.integer("attention.head_count", 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(attention.latent,
                       params.integer("attention.kv_lora_rank", 1, kMostSize));
  // If both kinds of keys are present, those without _mla describe the latent.
  bool split = params.has("attention.key_length_mla");
  MOE_ASSIGN_OR_RETURN(int64_t key,
                       params.integer(split ? "attention.key_length_mla"
                                            : "attention.key_length",
                                      attention.shared + 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(attention.value,
                       params.integer(split ? "attention.value_length_mla"
                                            : "attention.value_length",
                                      1, kMostSize));
  attention.nope = key - attention.shared;
  attention.scale = scoreFactor / std::sqrt(double(key));
  MOE_ASSIGN_OR_RETURN(attention.temperature,
                       readTemperature(params, "attention.temperature_length"));
  ModelFacts &facts = model.facts();
  facts.heads = attention.heads;
  facts.latent = attention.latent;
  facts.rope = attention.shared;
  return attention;
}

StatusOr<Value> buildQueryLatent(ModelBuilder &model, const LatentAttention &a,
                                 const std::string &block, Value x) {
  const GgufTensor *down = model.find(block + "attn_q_a.weight");
  if (!down)
    return Value();
  MOE_ASSIGN_OR_RETURN(
      int64_t rank, model.params().integer("attention.q_lora_rank", 1,
                                           kMostSize, int64_t(down->shape[1])));
  MOE_ASSIGN_OR_RETURN(x, model.linear(x, block + "attn_q_a", rank));
  return model.rmsNorm(x, block + "attn_q_a_norm", a.eps);
}

namespace {
/// Returns rotated queries [T, heads * (nope + rope)].
StatusOr<Value> buildQuery(ModelBuilder &model, const LatentAttention &a,
                           const std::string &block, Value x) {
  int64_t outputs = a.heads * (a.nope + a.shared);
  MOE_ASSIGN_OR_RETURN(
      Value q,
      model.linear(
          x, block + (model.has(block + "attn_q_a") ? "attn_q_b" : "attn_q"),
          outputs));
  if (a.rotates)
    q = model.create<moe::RopeOp>(block + "attn_q_rope", q.getType(), q,
                                  uint64_t(a.heads), uint64_t(a.nope), a.rope);
  return tempered(model, a.temperature, block, q);
}

/// Returns the cache with rows [norm(latent) | shared elements].
StatusOr<Value> storeLatents(ModelBuilder &model, const LatentAttention &a,
                             int64_t layer, const std::string &block, Value x) {
  int64_t width = a.latent + a.shared;
  moe::KvType type = moe::KvType::get(x.getContext(), width);
  MOE_ASSIGN_OR_RETURN(Value down,
                       model.linear(x, block + "attn_kv_a_mqa", width));
  if (a.shared == 0) {
    MOE_ASSIGN_OR_RETURN(down,
                         model.rmsNorm(down, block + "attn_kv_a_norm", a.eps));
    return Value(model.create<moe::RowStoreOp>(block + "attn_latent", type,
                                               down, uint64_t(layer)));
  }
  MOE_ASSIGN_OR_RETURN(Value norm,
                       model.vector(block + "attn_kv_a_norm.weight", a.latent));
  return Value(model.create<moe::MlaLatentOp>(block + "attn_latent", type, down,
                                              norm, uint64_t(layer),
                                              llvm::APFloat(a.eps), a.rope));
}

/// The matrices W_UK and W_UV of all heads.
struct Decompression {
  Value key, value;
  bool transposed; ///< Whether key is [heads, latent, nope].
};

StatusOr<Decompression> loadDecompression(ModelBuilder &model,
                                          const LatentAttention &a,
                                          const std::string &block) {
  Decompression result;
  // Some files contain both forms of the same weights. attn_kv_b is preferred:
  // it matches the definition exactly, and its parts are views.
  result.transposed = !model.has(block + "attn_kv_b");
  if (result.transposed) {
    MOE_ASSIGN_OR_RETURN(result.key, model.weight(block + "attn_k_b",
                                                  {a.heads, a.latent, a.nope}));
    MOE_ASSIGN_OR_RETURN(
        result.value,
        model.weight(block + "attn_v_b", {a.heads, a.value, a.latent}));
    return result;
  }
  MOE_ASSIGN_OR_RETURN(Value both, model.matrixAs(block + "attn_kv_b", a.heads,
                                                  a.nope + a.value, a.latent));
  result.key = model.slice(both, 0, a.nope, "keys");
  result.value = model.slice(both, a.nope, a.value, "values");
  return result;
}
} // namespace

StatusOr<Value> buildLatentAttention(ModelBuilder &model,
                                     const LatentAttention &a, int64_t layer,
                                     const std::string &block, Value x,
                                     Value queries, Value chosen,
                                     int64_t pool) {
  int64_t hidden = columnsOf(x);
  MOE_ASSIGN_OR_RETURN(Value q, buildQuery(model, a, block, queries));
  MOE_ASSIGN_OR_RETURN(Value kv, storeLatents(model, a, layer, block, x));
  MOE_ASSIGN_OR_RETURN(Decompression up, loadDecompression(model, a, block));
  Value mixed = model.create<moe::MlaAttentionOp>(
      block + "attention", model.rows(a.heads * a.value), q, kv, up.key,
      up.value, chosen, uint64_t(a.heads), uint64_t(a.nope), uint64_t(a.shared),
      uint64_t(a.latent), uint64_t(a.value), llvm::APFloat(a.scale),
      up.transposed, uint64_t(pool));
  if (const GgufTensor *found = model.find(block + "attn_gate.weight")) {
    const bool ofHeads = int64_t(found->shape[1]) == a.heads;
    MOE_ASSIGN_OR_RETURN(Value gate,
                         model.linear(x, block + "attn_gate",
                                      ofHeads ? a.heads : a.heads * a.value));
    mixed =
        model.create<moe::GateMulOp>(block + "attention_gate", mixed.getType(),
                                     mixed, gate, moe::Gate::Sigmoid);
  }
  return model.linear(mixed, block + "attn_output", hidden);
}

StatusOr<Value> buildLatentAttention(ModelBuilder &model,
                                     const LatentAttention &a, int64_t layer,
                                     const std::string &block, Value x) {
  MOE_ASSIGN_OR_RETURN(Value queries, buildQueryLatent(model, a, block, x));
  return buildLatentAttention(model, a, layer, block, x, queries ? queries : x);
}

} // namespace moec
