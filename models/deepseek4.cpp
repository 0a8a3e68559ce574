//===- deepseek4.cpp - DeepSeek-V4 ----------------------------------------===//
//
// Several residual streams (hyper-connections). Attention sees a window of
// tokens and compressed entries of earlier ones, among which an indexer may
// choose. Experts of the first layers depend on the token alone.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Decoder.h"
#include "models/EntryAttention.h"
#include "models/HyperStreams.h"
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
//===----------------------------------------------------------------------===//
// Hyper-parameters
//===----------------------------------------------------------------------===//

/// Tokens per entry in layers whose indexer chooses among entries.
constexpr int64_t kChosenRatio = 4;

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

/// Returns the cache of entries of `ratio` tokens, computed with weights that
/// begin with `prefix`.
StatusOr<Value> buildEntries(ModelBuilder &model, const EntryAttention &a,
                             int64_t layer, uint64_t part,
                             const std::string &prefix, Value x, int64_t ratio,
                             int64_t columns) {
  bool overlap = ratio == kChosenRatio;
  int64_t width = overlap ? 2 * columns : columns;
  MOE_ASSIGN_OR_RETURN(Value kv, model.linear(x, prefix + "kv", width));
  MOE_ASSIGN_OR_RETURN(Value gate, model.linear(x, prefix + "gate", width));
  MOE_ASSIGN_OR_RETURN(Value ape,
                       model.vectors(prefix + "ape.weight", ratio, width));
  Value entries = model.create<moe::CompressOp>(
      prefix + "sum", model.rows(columns), kv, gate, ape, uint64_t(layer), part,
      uint64_t(ratio), overlap);
  MOE_ASSIGN_OR_RETURN(Value norm,
                       model.vector(prefix + "norm.weight", columns));
  return model
      .create<moe::EntryStoreOp>(
          prefix + "store", moe::KvType::get(x.getContext(), columns), entries,
          norm, uint64_t(layer), part, uint64_t(ratio), llvm::APFloat(a.eps),
          a.entryRope)
      .getResult();
}

/// Returns the entries that each token attends to.
StatusOr<Value> buildChoice(ModelBuilder &model, const EntryAttention &a,
                            int64_t layer, const std::string &block, Value x,
                            Value queries, int64_t ratio) {
  MOE_ASSIGN_OR_RETURN(Value keys, buildEntries(model, a, layer, kIndexPart,
                                                block + "indexer_compressor_",
                                                x, ratio, a.indexer.key));
  MOE_ASSIGN_OR_RETURN(IndexQueries q,
                       buildIndexQueries(model, a.indexer, block, x, queries));
  q.q = rotateTail(model, block + "indexer.q_rope", q.q, a.indexer.heads,
                   a.entryRope);
  return buildIndexChoice(model, a.indexer, block, q, keys, ratio);
}

StatusOr<Value> buildAttention(ModelBuilder &model, const EntryAttention &a,
                               int64_t layer, const std::string &block,
                               Value x) {
  MOE_ASSIGN_OR_RETURN(int64_t ratio, readRatio(model.params(), layer));
  MOE_ASSIGN_OR_RETURN(Value low, buildLowQueries(model, a, block, x));
  MOE_ASSIGN_OR_RETURN(WindowRows window,
                       buildWindow(model, a, layer, block, x, low, ratio > 0,
                                   /*normsQueries=*/true));
  SeenEntries seen;
  seen.ratio = ratio;
  if (ratio > 0) {
    MOE_ASSIGN_OR_RETURN(seen.entries,
                         buildEntries(model, a, layer, kEntriesPart,
                                      block + "attn_compressor_", x, ratio,
                                      a.key));
  }
  if (ratio == kChosenRatio) {
    MOE_ASSIGN_OR_RETURN(seen.chosen,
                         buildChoice(model, a, layer, block, x, low, ratio));
  }
  return buildEntryAttention(model, a, block, window, seen, columnsOf(x));
}
} // namespace

Status buildDeepseek4(ModelBuilder &model) {
  const HyperParams &params = model.params();
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  MOE_ASSIGN_OR_RETURN(HyperStreams streams, readHyperStreams(params));
  MOE_ASSIGN_OR_RETURN(EntryAttention attention,
                       readEntryAttention(model, decoder.eps));
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
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    const std::string &block = model.beginLayer(layer);
    MOE_ASSIGN_OR_RETURN(
        x, buildStreamPart(model, streams, decoder, block + "hc_attn_",
                           block + "attn_norm", x, [&](Value y) {
                             return buildAttention(model, attention, layer,
                                                   block, y);
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
    MOE_ASSIGN_OR_RETURN(
        x, buildStreamPart(model, streams, decoder, block + "hc_ffn_",
                           block + "ffn_norm", x, [&](Value y) {
                             return buildRoutedExperts(model, experts, block, y,
                                                       /*routed=*/{}, tokens);
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
