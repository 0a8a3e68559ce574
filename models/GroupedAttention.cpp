#include "models/GroupedAttention.h"

#include "kernels/KvCache.h"
#include "models/Limits.h"

#include <cmath>
#include <fmt/format.h>

using mlir::Value;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

StatusOr<GroupedAttention> readGroupedAttention(ModelBuilder &model,
                                                const Decoder &decoder,
                                                const RopeTraits &rope,
                                                int64_t layer) {
  const HyperParams &params = model.params();
  GroupedAttention config;
  config.eps = decoder.eps;
  MOE_RETURN_IF_ERROR(readHeads(model, layer, config));
  MOE_ASSIGN_OR_RETURN(
      config.key,
      params.integer("attention.key_length", 1, kMostSize,
                     std::max<int64_t>(decoder.hidden / config.heads, 1)));
  MOE_ASSIGN_OR_RETURN(config.value, params.integer("attention.value_length", 1,
                                                    kMostSize, config.key));
  if (rope.rotates) {
    MOE_ASSIGN_OR_RETURN(Rope rotation, readRope(model, rope, config.key));
    config.rope = rotation.attr;
    model.facts().rope = config.rope.getDim();
  }
  MOE_ASSIGN_OR_RETURN(config.scale,
                       params.positive("attention.scale", 0.0, true));
  if (config.scale == 0)
    config.scale = 1 / std::sqrt(double(config.key));
  MOE_ASSIGN_OR_RETURN(config.limit,
                       params.positive("attention.clamp_kqv", 0.0, true));
  return config;
}

StatusOr<Temperature> readTemperature(const HyperParams &params,
                                      const char *length) {
  Temperature temperature;
  MOE_ASSIGN_OR_RETURN(
      temperature.slope,
      params.positive("attention.temperature_scale", 0.0, true));
  if (temperature.slope > 0) {
    MOE_ASSIGN_OR_RETURN(temperature.length,
                         params.integer(length, 1, INT32_MAX));
  }
  return temperature;
}

moert::Status readHeads(ModelBuilder &model, int64_t layer,
                        GroupedAttention &a) {
  const HyperParams &params = model.params();
  MOE_ASSIGN_OR_RETURN(
      a.heads, params.ofLayer("attention.head_count", layer, 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(a.kvHeads, params.ofLayer("attention.head_count_kv",
                                                 layer, 1, a.heads, a.heads));
  if (a.heads % a.kvHeads != 0)
    return params.error(
        StatusCode::InvalidFile, "attention.head_count_kv",
        fmt::format("is {} for layer {}, expected a divisor of the {} heads",
                    a.kvHeads, layer, a.heads));
  model.facts().heads = std::max(model.facts().heads, a.heads);
  return moert::Status::ok();
}

StatusOr<bool> hasAttention(const ModelBuilder &model, int64_t layer) {
  MOE_ASSIGN_OR_RETURN(int64_t heads,
                       model.params().ofLayer("attention.head_count_kv", layer,
                                              0, kMostHeads, 1));
  return heads > 0;
}

namespace {
/// Projects with attn_`part`, or if the file fuses the three, with rows `begin`
/// ... of attn_qkv.
StatusOr<Value> projectFree(ModelBuilder &model, const GroupedAttention &a,
                            const std::string &block, Value x,
                            const std::string &part, int64_t begin,
                            int64_t rows) {
  std::string fused = block + "attn_qkv", own = block + "attn_" + part;
  if (!model.has(fused))
    return model.linear(x, own, rows);
  int64_t all = a.heads * a.key + a.kvHeads * (a.key + a.value);
  return model.linearRows(x, own, fused, all, begin, rows);
}

/// Projects and clamps rows.
StatusOr<Value> project(ModelBuilder &model, const GroupedAttention &a,
                        const std::string &block, Value x,
                        const std::string &part, int64_t begin, int64_t rows) {
  MOE_ASSIGN_OR_RETURN(x, projectFree(model, a, block, x, part, begin, rows));
  if (a.limit == 0)
    return x;
  return model.clamp(x, block + "attn_" + part + "_clamp", a.limit);
}

/// Norms rows, if the file has a norm: each of `heads`, or all heads together.
StatusOr<Value> normHeads(ModelBuilder &model, const GroupedAttention &a,
                          const std::string &name, Value x, int64_t heads) {
  if (a.normsBare)
    return model.rmsNormOnly(x, name + "_norm", a.eps, heads);
  const GgufTensor *norm = model.find(name + "_norm.weight");
  if (!norm)
    return x;
  bool whole = int64_t(norm->shape[0]) == columnsOf(x);
  return model.rmsNorm(x, name + "_norm", a.eps, whole ? 1 : heads);
}

/// Norms and rotates rows.
StatusOr<Value> finish(ModelBuilder &model, const GroupedAttention &a,
                       const std::string &name, Value x, int64_t heads) {
  if (!a.normsRotated) {
    MOE_ASSIGN_OR_RETURN(x, normHeads(model, a, name, x, heads));
  }
  if (a.rope)
    x = model.create<moe::RopeOp>(name + "_rope", x.getType(), x,
                                  uint64_t(heads), /*offset=*/0, a.rope);
  if (!a.normsRotated)
    return x;
  return normHeads(model, a, name, x, heads);
}
} // namespace

Value tempered(ModelBuilder &model, const Temperature &t,
               const std::string &block, Value q) {
  if (t.length == 0)
    return q;
  return model.create<moe::PositionScaleOp>(
      block + "attn_q_temperature", q.getType(), q, uint64_t(t.length),
      uint64_t(t.offset), llvm::APFloat(t.slope));
}

StatusOr<Value> buildQueries(ModelBuilder &model, const GroupedAttention &a,
                             const std::string &block, Value x) {
  MOE_ASSIGN_OR_RETURN(Value q,
                       project(model, a, block, x, "q", 0, a.heads * a.key));
  MOE_ASSIGN_OR_RETURN(q, finish(model, a, block + "attn_q", q, a.heads));
  return tempered(model, a.temperature, block, q);
}

StatusOr<Value> buildKeysAndValues(ModelBuilder &model,
                                   const GroupedAttention &a, int64_t layer,
                                   const std::string &block, Value x) {
  int64_t queries = a.heads * a.key, keys = a.kvHeads * a.key;
  MOE_ASSIGN_OR_RETURN(Value raw,
                       project(model, a, block, x, "k", queries, keys));
  MOE_ASSIGN_OR_RETURN(Value k,
                       finish(model, a, block + "attn_k", raw, a.kvHeads));
  Value v = raw;
  if (!a.normedValues || model.has(block + "attn_v") ||
      model.has(block + "attn_qkv")) {
    MOE_ASSIGN_OR_RETURN(v, project(model, a, block, x, "v", queries + keys,
                                    a.kvHeads * a.value));
  }
  if (a.normedValues)
    v = model.rmsNormOnly(v, block + "attn_v_norm", a.eps, a.kvHeads);
  int64_t width = moek::gqaKvWidth(a.kvHeads, a.key, a.value);
  return model
      .create<moe::KvStoreOp>(block + "attn_kv",
                              moe::KvType::get(x.getContext(), width), k, v,
                              uint64_t(layer), uint64_t(a.kvHeads))
      .getResult();
}

StatusOr<Value> attendAndProject(ModelBuilder &model, const GroupedAttention &a,
                                 const std::string &block, Value q, Value kv,
                                 int64_t hidden, Value gate,
                                 const BlockChoice &blocks) {
  Value mixed;
  if (blocks.chosen) {
    mixed = model.create<moe::BlockAttentionOp>(
        block + "attention", model.rows(a.heads * a.value), q, kv,
        blocks.chosen, uint64_t(a.heads), uint64_t(a.kvHeads), uint64_t(a.key),
        uint64_t(a.value), llvm::APFloat(a.scale), uint64_t(blocks.groups),
        uint64_t(blocks.ratio), uint64_t(blocks.local));
  } else {
    MOE_ASSIGN_OR_RETURN(
        Value sinks, model.vectorIfAny(block + "attn_sinks.weight", a.heads));
    mixed = model.create<moe::GqaAttentionOp>(
        block + "attention", model.rows(a.heads * a.value), q, kv, sinks,
        uint64_t(a.heads), uint64_t(a.kvHeads), uint64_t(a.key),
        uint64_t(a.value), llvm::APFloat(a.scale), uint64_t(a.window),
        llvm::APFloat(a.softcap));
  }
  if (gate)
    mixed = model.create<moe::GateMulOp>(block + "attention_gate",
                                         mixed.getType(), mixed, gate, a.gate);
  MOE_ASSIGN_OR_RETURN(Value result,
                       model.linear(mixed, block + "attn_output", hidden));
  return a.resultScale == 1
             ? result
             : model.scale(result, block + "attn_output_scale", a.resultScale);
}

StatusOr<Value> buildGroupedAttention(ModelBuilder &model,
                                      const GroupedAttention &a, int64_t layer,
                                      const std::string &block, Value x,
                                      const BlockChoice &blocks) {
  Value q, gate;
  if (a.gated) {
    MOE_ASSIGN_OR_RETURN(
        Value both, model.linear(x, block + "attn_q", 2 * a.heads * a.key));
    q = model.regroup(both, block + "attn_query", a.heads, 0, {a.key});
    gate = model.regroup(both, block + "attn_gate", a.heads, a.key, {a.key});
    MOE_ASSIGN_OR_RETURN(q, finish(model, a, block + "attn_q", q, a.heads));
  } else {
    MOE_ASSIGN_OR_RETURN(q, buildQueries(model, a, block, x));
    if (const GgufTensor *found = model.find(block + "attn_gate.weight")) {
      const bool ofHeads = int64_t(found->shape[1]) == a.heads;
      MOE_ASSIGN_OR_RETURN(gate,
                           model.linear(x, block + "attn_gate",
                                        a.heads * (ofHeads ? 1 : a.value)));
    }
  }
  MOE_ASSIGN_OR_RETURN(Value kv, buildKeysAndValues(model, a, layer, block, x));
  return attendAndProject(model, a, block, q, kv, columnsOf(x), gate, blocks);
}

} // namespace moec
