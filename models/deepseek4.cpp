//===- deepseek4.cpp - DeepSeek-V4 ----------------------------------------===//
//
// Several residual streams (hyper-connections). Attention sees a window of
// tokens and compressed entries of earlier ones, among which an indexer may
// choose. Experts of the first layers depend on the token alone.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Decoder.h"
#include "models/HyperStreams.h"
#include "models/LightningIndexer.h"
#include "models/Limits.h"
#include "models/Rope.h"
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
//===----------------------------------------------------------------------===//
// Hyper-parameters
//===----------------------------------------------------------------------===//

/// Numbers of a layer's caches and states.
enum Part : uint64_t { kWindow = 0, kIndex = 1, kEntries = 2 };

/// Tokens per entry in layers whose indexer chooses among entries.
constexpr int64_t kChosenRatio = 4;

struct Attention {
  int64_t heads, key, queryRank, window, groups, outputRank;
  moe::RopeAttr windowRope, entryRope; ///< For layers without, with entries.
  LightningIndexer indexer;
  double eps;
};

moe::RopeAttr withBase(moe::RopeAttr rope, double base, bool scaled) {
  return moe::RopeAttr::get(
      rope.getContext(), rope.getDim(), base, scaled ? rope.getFactor() : 1.0,
      scaled ? rope.getOriginalContext() : 0, rope.getBetaFast(),
      rope.getBetaSlow(), rope.getRounded(), rope.getMagnitude(),
      rope.getDivisors(), rope.getNeox(), /*reversed=*/false);
}

moe::RopeAttr reversed(moe::RopeAttr rope) {
  return moe::RopeAttr::get(
      rope.getContext(), rope.getDim(), rope.getBase(), rope.getFactor(),
      rope.getOriginalContext(), rope.getBetaFast(), rope.getBetaSlow(),
      rope.getRounded(), rope.getMagnitude(), rope.getDivisors(),
      rope.getNeox(), /*reversed=*/true);
}

StatusOr<Attention> readAttention(ModelBuilder &model, double eps) {
  const HyperParams &params = model.params();
  Attention a;
  a.eps = eps;
  MOE_ASSIGN_OR_RETURN(a.heads,
                       params.integer("attention.head_count", 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(a.key,
                       params.integer("attention.key_length", 2, kMostSize));
  MOE_RETURN_IF_ERROR(
      params.integer("attention.value_length", a.key, a.key, a.key).status());
  MOE_ASSIGN_OR_RETURN(a.queryRank,
                       params.integer("attention.q_lora_rank", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(
      a.window, params.integer("attention.sliding_window", 1, INT32_MAX));
  MOE_ASSIGN_OR_RETURN(
      a.groups, params.integer("attention.output_group_count", 1, a.heads));
  if (a.heads % a.groups != 0)
    return params.error(StatusCode::InvalidFile, "attention.output_group_count",
                        fmt::format("is {}, expected a divisor of the {} heads",
                                    a.groups, a.heads));
  MOE_ASSIGN_OR_RETURN(
      a.outputRank, params.integer("attention.output_lora_rank", 1, kMostSize));
  constexpr RopeTraits kTraits{
      .neox = false, .rounded = true, .magnitude = false};
  MOE_ASSIGN_OR_RETURN(Rope rope, readRope(model, kTraits, a.key));
  MOE_ASSIGN_OR_RETURN(double base,
                       params.positive("attention.compress_rope_freq_base"));
  if (base <= 1)
    return params.error(StatusCode::InvalidFile,
                        "attention.compress_rope_freq_base",
                        fmt::format("is {}, expected more than 1", base));
  a.windowRope = withBase(rope.attr, rope.attr.getBase(), /*scaled=*/false);
  a.entryRope = withBase(rope.attr, base, /*scaled=*/true);
  MOE_ASSIGN_OR_RETURN(a.indexer, readIndexer(model, a.entryRope));
  model.facts().heads = a.heads;
  model.facts().rope = rope.attr.getDim();
  return a;
}

StatusOr<int64_t> readRatio(const HyperParams &params, int64_t layer) {
  constexpr const char *kKey = "attention.compress_ratios";
  MOE_ASSIGN_OR_RETURN(int64_t ratio,
                       params.ofLayer(kKey, layer, 0, kMostSize));
  if (ratio == 0 || ratio == kChosenRatio || ratio == 128)
    return ratio;
  return params.error(
      StatusCode::Unsupported, kKey,
      fmt::format("is {} for layer {}; supported: 0, 4, 128", ratio, layer));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Rotates the last elements of each head.
Value rotateTail(ModelBuilder &model, const std::string &label, Value x,
                 int64_t heads, moe::RopeAttr rope) {
  int64_t offset = columnsOf(x) / heads - rope.getDim();
  return model.create<moe::RopeOp>(label, x.getType(), x, uint64_t(heads),
                                   uint64_t(offset), rope);
}

/// Returns the cache of entries of `ratio` tokens, computed with weights that
/// begin with `prefix`.
StatusOr<Value> buildEntries(ModelBuilder &model, const Attention &a,
                             int64_t layer, Part part,
                             const std::string &prefix, Value x, int64_t ratio,
                             int64_t columns) {
  bool overlap = ratio == kChosenRatio;
  int64_t width = overlap ? 2 * columns : columns;
  MOE_ASSIGN_OR_RETURN(Value kv, model.linear(x, prefix + "kv", width));
  MOE_ASSIGN_OR_RETURN(Value gate, model.linear(x, prefix + "gate", width));
  MOE_ASSIGN_OR_RETURN(Value ape,
                       model.vectors(prefix + "ape.weight", ratio, width));
  Value entries = model.create<moe::CompressOp>(
      prefix + "sum", model.rows(columns), kv, gate, ape, uint64_t(layer),
      uint64_t(part), uint64_t(ratio), overlap);
  MOE_ASSIGN_OR_RETURN(Value norm,
                       model.vector(prefix + "norm.weight", columns));
  return model
      .create<moe::EntryStoreOp>(
          prefix + "store", moe::KvType::get(x.getContext(), columns), entries,
          norm, uint64_t(layer), uint64_t(part), uint64_t(ratio),
          llvm::APFloat(a.eps), a.entryRope)
      .getResult();
}

/// Returns the entries that each token attends to.
StatusOr<Value> buildChoice(ModelBuilder &model, const Attention &a,
                            int64_t layer, const std::string &block, Value x,
                            Value queries, int64_t ratio) {
  MOE_ASSIGN_OR_RETURN(Value keys, buildEntries(model, a, layer, kIndex,
                                                block + "indexer_compressor_",
                                                x, ratio, a.indexer.key));
  MOE_ASSIGN_OR_RETURN(IndexQueries q,
                       buildIndexQueries(model, a.indexer, block, x, queries));
  q.q = rotateTail(model, block + "indexer.q_rope", q.q, a.indexer.heads,
                   a.entryRope);
  return buildIndexChoice(model, a.indexer, block, q, keys, ratio);
}

StatusOr<Value> buildAttention(ModelBuilder &model, const Attention &a,
                               int64_t layer, const std::string &block,
                               Value x) {
  int64_t hidden = columnsOf(x), heads = a.heads;
  MOE_ASSIGN_OR_RETURN(int64_t ratio, readRatio(model.params(), layer));
  moe::RopeAttr rope = ratio ? a.entryRope : a.windowRope;
  MOE_ASSIGN_OR_RETURN(Value queries,
                       model.linear(x, block + "attn_q_a", a.queryRank));
  MOE_ASSIGN_OR_RETURN(queries,
                       model.rmsNorm(queries, block + "attn_q_a_norm", a.eps));
  MOE_ASSIGN_OR_RETURN(
      Value q, model.linear(queries, block + "attn_q_b", heads * a.key));
  q = model.rmsNormOnly(q, block + "attn_q_norm", a.eps, heads);
  q = rotateTail(model, block + "attn_q_rope", q, heads, rope);
  MOE_ASSIGN_OR_RETURN(Value kv, model.linear(x, block + "attn_kv", a.key));
  MOE_ASSIGN_OR_RETURN(kv, model.rmsNorm(kv, block + "attn_kv_a_norm", a.eps));
  kv = rotateTail(model, block + "attn_kv_rope", kv, 1, rope);
  Value rows = model.create<moe::RowStoreOp>(
      block + "attn_rows", moe::KvType::get(x.getContext(), a.key), kv,
      uint64_t(layer), uint64_t(kWindow));
  Value entries, chosen;
  if (ratio > 0) {
    MOE_ASSIGN_OR_RETURN(entries, buildEntries(model, a, layer, kEntries,
                                               block + "attn_compressor_", x,
                                               ratio, a.key));
  }
  if (ratio == kChosenRatio) {
    MOE_ASSIGN_OR_RETURN(
        chosen, buildChoice(model, a, layer, block, x, queries, ratio));
  }
  MOE_ASSIGN_OR_RETURN(Value sinks,
                       model.vector(block + "attn_sinks.weight", heads));
  Value mixed = model.create<moe::SparseAttentionOp>(
      block + "attention", q.getType(), q, rows, entries, chosen, sinks,
      uint64_t(heads), uint64_t(a.key), uint64_t(a.key),
      llvm::APFloat(1 / std::sqrt(double(a.key))), uint64_t(a.window),
      uint64_t(ratio));
  // Keys are also the values, so their rotation has to be undone in the result.
  mixed =
      rotateTail(model, block + "attention_rope", mixed, heads, reversed(rope));
  int64_t columns = heads * a.key / a.groups;
  MOE_ASSIGN_OR_RETURN(
      Value output,
      model.matrices(block + "attn_output_a", a.groups, a.outputRank, columns));
  mixed = model.create<moe::ExpandValueOp>(
      block + "attn_output_a", model.rows(a.groups * a.outputRank), mixed,
      output, uint64_t(a.groups), uint64_t(columns), uint64_t(a.outputRank));
  return model.linear(mixed, block + "attn_output_b", hidden);
}
} // namespace

Status buildDeepseek4(ModelBuilder &model) {
  const HyperParams &params = model.params();
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  MOE_ASSIGN_OR_RETURN(HyperStreams streams, readHyperStreams(params));
  MOE_ASSIGN_OR_RETURN(Attention attention, readAttention(model, decoder.eps));
  RoutedExperts defaults;
  defaults.scoring = moe::Scoring::SqrtSoftplus;
  defaults.ranksPairs = true;
  MOE_ASSIGN_OR_RETURN(RoutedExperts experts,
                       readRoutedExperts(params, defaults));
  model.facts().experts = experts.experts;
  model.facts().expertsUsed = experts.used;

  MOE_ASSIGN_OR_RETURN(
      int64_t hashed, params.integer("hash_layer_count", 0, decoder.blocks, 0));

  MOE_ASSIGN_OR_RETURN(Value x, beginForward(model, decoder));
  Value tokens = x.getDefiningOp<moe::EmbeddingOp>().getTokens();
  x = spreadStreams(model, streams, "token_embd.", x);
  // x = spread(part(norm(collapse(x))), x)
  using Part = llvm::function_ref<StatusOr<Value>(Value)>;
  auto around = [&](const std::string &name, const std::string &norm,
                    Part part) -> Status {
    MOE_ASSIGN_OR_RETURN(
        Value weights, buildStreamWeights(model, streams, name, decoder.eps, x,
                                          /*readsOnly=*/false));
    Value y = collapseStreams(model, streams, name, x, weights);
    MOE_ASSIGN_OR_RETURN(y, model.rmsNorm(y, norm, decoder.eps));
    MOE_ASSIGN_OR_RETURN(y, part(y));
    x = spreadStreams(model, streams, name, y, x, weights);
    return Status::ok();
  };
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    const std::string &block = model.beginLayer(layer);
    MOE_RETURN_IF_ERROR(
        around(block + "hc_attn_", block + "attn_norm", [&](Value y) {
          return buildAttention(model, attention, layer, block, y);
        }));
    const std::string table = block + "ffn_gate_tid2eid";
    if (layer < hashed && !model.has(table))
      return Status(StatusCode::InvalidFile,
                    fmt::format("{}: tensor \"{}.weight\" is missing",
                                model.file().paths().front(), table));
    MOE_ASSIGN_OR_RETURN(experts.limit,
                         params.positiveOfLayer("swiglu_clamp_exp", layer));
    MOE_ASSIGN_OR_RETURN(experts.sharedLimit,
                         params.positiveOfLayer("swiglu_clamp_shexp", layer));
    MOE_RETURN_IF_ERROR(
        around(block + "hc_ffn_", block + "ffn_norm", [&](Value y) {
          return buildRoutedExperts(model, experts, block, y, /*routed=*/{},
                                    tokens);
        }));
  }
  model.endLayers();
  MOE_ASSIGN_OR_RETURN(Value weights,
                       buildStreamWeights(model, streams, "output_hc_",
                                          decoder.eps, x, /*readsOnly=*/true));
  return endForward(model, decoder,
                    collapseStreams(model, streams, "output_hc_", x, weights));
}

} // namespace moec
