//===- deepseek41.cpp - DeepSeek-V4.1 -------------------------------------===//
//
// As DeepSeek-V4, but entries and an indexer's keys are made by source layers
// and shared by those behind them, the choice of one indexer bounds later ones,
// a layer's part reads the streams with the weights of the part before it, and
// values of n-grams are gated into the streams before some layers.
//
//===----------------------------------------------------------------------===//

#include "kernels/Abi.h"
#include "models/Builders.h"
#include "models/Decoder.h"
#include "models/EntryAttention.h"
#include "models/HyperStreams.h"
#include "models/Limits.h"
#include "models/NgramTable.h"
#include "models/RoutedExperts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

using mlir::Value;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
//===----------------------------------------------------------------------===//
// Entries and choices
//===----------------------------------------------------------------------===//

/// The layer whose choice bounds the choices of later layers, to how many
/// blocks of how many entries.
struct Candidates {
  int64_t source = -1, blocks = 0, size = 0;
};

StatusOr<Candidates> readCandidates(const HyperParams &params,
                                    const Decoder &decoder,
                                    const LightningIndexer &indexer) {
  constexpr const char *kSource = "attention.candidate_source_layer_id",
                       *kBlocks = "attention.candidate_topk_blocks";
  Candidates candidates;
  if (!params.has(kSource))
    return candidates;
  MOE_ASSIGN_OR_RETURN(candidates.source,
                       params.integer(kSource, 0, decoder.layers - 1));
  // One of them is the token's own.
  MOE_ASSIGN_OR_RETURN(candidates.blocks,
                       params.integer(kBlocks, 2, kMostSize));
  MOE_ASSIGN_OR_RETURN(
      candidates.size,
      params.integer("attention.candidate_block_size", 1, kMostSize));
  int64_t least = (candidates.blocks - 1) * candidates.size + 1;
  if (least < indexer.used)
    return params.error(
        StatusCode::Unsupported, kBlocks,
        fmt::format("is {}: blocks of {} entries may have {}, fewer than the "
                    "{} that an indexer chooses",
                    candidates.blocks, candidates.size, least, indexer.used));
  return candidates;
}

/// Values that a layer shares with the layers before it.
struct Shared {
  SeenEntries seen;
  Value keys;   ///< The indexer's keys.
  Value blocks; ///< Blocks that bound the choices; null: no bound.
};

/// Makes a source layer's entries and its indexer's keys of them.
Status buildSource(ModelBuilder &model, const EntryAttention &a, int64_t layer,
                   const std::string &block, Value x, Shared &shared) {
  const std::string name = block + "attn_compressor_";
  const auto ratio = uint64_t(shared.seen.ratio);
  MOE_ASSIGN_OR_RETURN(Value entries, model.linear(x, name + "kv", a.key));
  if (ratio > 1) {
    MOE_ASSIGN_OR_RETURN(Value gate, model.linear(x, name + "gate", a.key));
    entries = model.create<moe::CompressOp>(
        name + "sum", entries.getType(), entries, gate, Value(),
        uint64_t(layer), kEntriesPart, ratio, /*overlap=*/false);
  }
  auto store = [&](const std::string &label, Value rows, Value norm,
                   uint64_t part) -> Value {
    return model.create<moe::EntryStoreOp>(
        label, moe::KvType::get(x.getContext(), columnsOf(rows)), rows, norm,
        uint64_t(layer), part, ratio, llvm::APFloat(a.eps), a.entryRope);
  };
  MOE_ASSIGN_OR_RETURN(Value norm, model.vector(name + "norm.weight", a.key));
  shared.seen.entries = store(name + "store", entries, norm, kEntriesPart);
  MOE_ASSIGN_OR_RETURN(Value keys,
                       model.rmsNorm(entries, name + "norm", a.eps));
  MOE_ASSIGN_OR_RETURN(
      keys, model.linear(keys, block + "indexer.attn_k", a.indexer.key));
  MOE_ASSIGN_OR_RETURN(
      norm, model.vector(block + "indexer.k_norm.weight", a.indexer.key));
  shared.keys = store(block + "indexer.keys", keys, norm, kIndexPart);
  shared.seen.chosen = {};
  return Status::ok();
}

Status buildChoice(ModelBuilder &model, const EntryAttention &a,
                   const Candidates &candidates, int64_t layer,
                   const std::string &block, Value x, Value low,
                   Shared &shared) {
  const LightningIndexer &indexer = a.indexer;
  MOE_ASSIGN_OR_RETURN(IndexQueries q,
                       buildIndexQueries(model, indexer, block, x, low));
  q.q = rotateTail(model, block + "indexer.q_rope", q.q, indexer.heads,
                   a.entryRope);
  const bool isSource = layer == candidates.source;
  const bool isBound = candidates.source >= 0 && layer > candidates.source;
  auto op = model.create<moe::ChooseEntriesOp>(
      block + "indexer.choice", model.idRows(indexer.used),
      isSource ? mlir::Type(model.idRows(candidates.blocks - 1)) : mlir::Type(),
      q.q, q.weights, shared.keys, isBound ? shared.blocks : Value(),
      uint64_t(indexer.heads), uint64_t(indexer.key), uint64_t(indexer.used),
      llvm::APFloat(1 / std::sqrt(double(indexer.key * indexer.heads))),
      uint64_t(shared.seen.ratio),
      uint64_t(isSource || isBound ? candidates.size : 0));
  shared.seen.chosen = op.getResult();
  if (isSource)
    shared.blocks = op.getBlocks();
  return Status::ok();
}

Status checkRatio(const HyperParams &params, const Candidates &candidates,
                  int64_t layer, bool isSource, const Shared &before,
                  int64_t ratio) {
  constexpr const char *kKey = "attention.compress_ratios";
  if (!isSource && ratio != before.seen.ratio)
    return params.error(
        StatusCode::InvalidFile, kKey,
        fmt::format("is {} for layer {}, which has no compressor of its own; "
                    "the entries before it have {}",
                    ratio, layer, before.seen.ratio));
  // A token's own block would have to be that of its last entry.
  if (candidates.source >= 0 && layer >= candidates.source && ratio > 1)
    return params.error(
        StatusCode::Unsupported, kKey,
        fmt::format("is {} for layer {}, whose choice is in blocks; supported "
                    "there: 1",
                    ratio, layer));
  return Status::ok();
}

StatusOr<Value> buildAttention(ModelBuilder &model, const EntryAttention &a,
                               const Candidates &candidates, int64_t layer,
                               const std::string &block, Value x,
                               Shared &shared) {
  const HyperParams &params = model.params();
  MOE_ASSIGN_OR_RETURN(
      int64_t ratio,
      params.ofLayer("attention.compress_ratios", layer, 0, kMostSize));
  MOE_ASSIGN_OR_RETURN(Value low, buildLowQueries(model, a, block, x));
  MOE_ASSIGN_OR_RETURN(WindowRows window,
                       buildWindow(model, a, layer, block, x, low, ratio > 0,
                                   /*normsQueries=*/false));
  if (ratio == 0)
    return buildEntryAttention(model, a, block, window, {}, columnsOf(x));
  const bool isSource = model.has(block + "attn_compressor_kv");
  MOE_RETURN_IF_ERROR(
      checkRatio(params, candidates, layer, isSource, shared, ratio));
  if (isSource) {
    shared.seen.ratio = ratio;
    MOE_RETURN_IF_ERROR(buildSource(model, a, layer, block, x, shared));
  }
  if (model.has(block + "indexer.attn_q_b")) {
    MOE_RETURN_IF_ERROR(
        buildChoice(model, a, candidates, layer, block, x, low, shared));
  }
  if (!shared.seen.chosen)
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}: tensor \"{}indexer.attn_q_b.weight\" is "
                              "missing, and no layer before chooses entries",
                              model.file().paths().front(), block));
  return buildEntryAttention(model, a, block, window, shared.seen,
                             columnsOf(x));
}

//===----------------------------------------------------------------------===//
// N-grams
//===----------------------------------------------------------------------===//

constexpr uint64_t kTokensPart = 3;
constexpr NgramKeys kNgramKeys{"engram.multipliers", "engram.primes",
                               "engram.offsets"};

/// The tables of the layers that have one.
using Ngrams = std::map<int64_t, NgramTable>;

StatusOr<Ngrams> readNgrams(const HyperParams &params, const Decoder &decoder) {
  constexpr const char *kLayers = "engram.layer_ids";
  Ngrams ngrams;
  if (!params.has(kLayers))
    return ngrams;
  MOE_ASSIGN_OR_RETURN(std::vector<int64_t> layers,
                       params.allIntegers(kLayers, 0, decoder.layers - 1));
  NgramTable table;
  MOE_ASSIGN_OR_RETURN(
      table.size, params.integer("engram.max_ngram_size", 2, moek::kMaxNgram));
  MOE_ASSIGN_OR_RETURN(table.heads,
                       params.integer("engram.head_count", 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(table.columns,
                       params.integer("engram.key_length", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(table.pad,
                       params.integer("engram.pad_id", 0, kMostTokens - 1));
  MOE_ASSIGN_OR_RETURN(table.map,
                       params.integers("engram.token_map", decoder.vocab, 0));
  if (!table.map.empty() && *std::ranges::max_element(table.map) >= kMostTokens)
    return params.error(
        StatusCode::InvalidFile, "engram.token_map",
        fmt::format("has numbers that are not below {}", kMostTokens));
  const auto tables = int64_t(layers.size());
  struct Numbers {
    const char *key;
    int64_t each, low;
    std::vector<int64_t> NgramTable::*member;
  };
  const Numbers all[] = {
      {kNgramKeys.multipliers, table.size, 0, &NgramTable::multipliers},
      {kNgramKeys.moduli, table.rows(), 1, &NgramTable::moduli},
      {kNgramKeys.offsets, table.rows(), 0, &NgramTable::offsets}};
  for (int64_t layer : layers)
    ngrams[layer] = table;
  for (const Numbers &one : all) {
    MOE_ASSIGN_OR_RETURN(std::vector<int64_t> values,
                         params.integers(one.key, tables * one.each, one.low));
    for (size_t i = 0; i < layers.size(); ++i) {
      auto begin = values.begin() + ptrdiff_t(int64_t(i) * one.each);
      (ngrams[layers[i]].*one.member).assign(begin, begin + one.each);
    }
  }
  return ngrams;
}

/// Returns the streams `x` plus the value of the n-grams gated into each.
StatusOr<Value> addNgrams(ModelBuilder &model, const NgramTable &table,
                          const HyperStreams &s, double eps, int64_t layer,
                          const std::string &block, Value x, Value tokens) {
  const std::string name = block + "engram_";
  const int64_t all = columnsOf(x), hidden = all / s.count;
  MOE_ASSIGN_OR_RETURN(
      Value found, buildNgramRows(model, table, kNgramKeys, layer, kTokensPart,
                                  name + "embedding", name + "embd", tokens));
  auto norm = [&](const std::string &weight, Value rows) -> StatusOr<Value> {
    MOE_ASSIGN_OR_RETURN(Value values,
                         model.flatVector(weight + ".weight", all));
    return Value(model.create<moe::RmsNormOp>(weight + "_norm", rows.getType(),
                                              rows, values, llvm::APFloat(eps),
                                              uint64_t(s.count)));
  };
  MOE_ASSIGN_OR_RETURN(Value key,
                       model.linearRows(found, name + "key", name + "wkv",
                                        all + hidden, 0, all));
  MOE_ASSIGN_OR_RETURN(key, norm(name + "k", key));
  MOE_ASSIGN_OR_RETURN(Value value,
                       model.linearRows(found, name + "value", name + "wkv",
                                        all + hidden, all, hidden));
  MOE_ASSIGN_OR_RETURN(Value query, norm(name + "q", x));
  Value gated = model.create<moe::GateStreamsOp>(
      name + "gate", x.getType(), query, key, value, uint64_t(s.count));
  return Value(model.create<moe::AddOp>(name + "add", x, gated));
}
} // namespace

Status buildDeepseek41(ModelBuilder &model) {
  const HyperParams &params = model.params();
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  MOE_ASSIGN_OR_RETURN(HyperStreams streams, readHyperStreams(params));
  MOE_ASSIGN_OR_RETURN(EntryAttention attention,
                       readEntryAttention(model, decoder.eps));
  MOE_ASSIGN_OR_RETURN(Candidates candidates,
                       readCandidates(params, decoder, attention.indexer));
  MOE_ASSIGN_OR_RETURN(Ngrams ngrams, readNgrams(params, decoder));
  RoutedExperts defaults;
  defaults.scoring = moe::Scoring::SqrtSoftplus;
  defaults.ranksPairs = true;
  MOE_ASSIGN_OR_RETURN(RoutedExperts experts,
                       readRoutedExperts(params, defaults));
  model.facts().experts = experts.experts;
  model.facts().expertsUsed = experts.used;
  MOE_RETURN_IF_ERROR(params.integer("hash_layer_count", 0, 0, 0).status());

  MOE_ASSIGN_OR_RETURN(Value x, beginForward(model, decoder));
  Value tokens = x.getDefiningOp<moe::EmbeddingOp>().getTokens();
  x = spreadStreams(model, streams, "token_embd.", x);
  // The first part reads the first stream alone, later ones what the weights of
  // the part before say.
  Value reads;
  auto read = [&](const std::string &name) {
    return reads ? collapseStreams(model, streams, name, x, reads)
                 : model.regroup(x, name + "in", 1, 0, {decoder.hidden});
  };
  using Part = llvm::function_ref<StatusOr<Value>(Value)>;
  auto around = [&](const std::string &name, const std::string &norm,
                    Part part) -> Status {
    MOE_ASSIGN_OR_RETURN(
        Value weights, buildStreamWeights(model, streams, name, decoder.eps, x,
                                          /*readsOnly=*/false));
    MOE_ASSIGN_OR_RETURN(Value y, model.rmsNorm(read(name), norm, decoder.eps));
    MOE_ASSIGN_OR_RETURN(y, part(y));
    x = spreadStreams(model, streams, name, y, x, weights);
    reads = weights;
    return Status::ok();
  };
  Shared shared;
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    const std::string &block = model.beginLayer(layer);
    if (auto table = ngrams.find(layer); table != ngrams.end()) {
      MOE_ASSIGN_OR_RETURN(x, addNgrams(model, table->second, streams,
                                        decoder.eps, layer, block, x, tokens));
    }
    MOE_RETURN_IF_ERROR(
        around(block + "hc_attn_", block + "attn_norm", [&](Value y) {
          return buildAttention(model, attention, candidates, layer, block, y,
                                shared);
        }));
    MOE_ASSIGN_OR_RETURN(experts.limit,
                         params.positiveOfLayer("swiglu_clamp_exp", layer));
    MOE_ASSIGN_OR_RETURN(experts.sharedLimit,
                         params.positiveOfLayer("swiglu_clamp_shexp", layer));
    MOE_RETURN_IF_ERROR(
        around(block + "hc_ffn_", block + "ffn_norm", [&](Value y) {
          return buildRoutedExperts(model, experts, block, y);
        }));
  }
  model.endLayers();
  return endForward(model, decoder, read("output_hc_"));
}

} // namespace moec
