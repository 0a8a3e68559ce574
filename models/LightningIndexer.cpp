#include "models/LightningIndexer.h"

#include "models/FeedForward.h"
#include "models/Limits.h"

#include <cmath>
#include <fmt/format.h>

using mlir::Value;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

StatusOr<LightningIndexer> readIndexer(ModelBuilder &model,
                                       moe::RopeAttr rope) {
  const HyperParams &params = model.params();
  LightningIndexer config;
  config.rope = rope;
  MOE_ASSIGN_OR_RETURN(
      config.heads,
      params.integer("attention.indexer.head_count", 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(config.key,
                       params.integer("attention.indexer.key_length",
                                      rope ? rope.getDim() : 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(config.used,
                       params.integer("attention.indexer.top_k", 1, kMostSize));
  return config;
}

Status readPools(const HyperParams &params, LightningIndexer &config) {
  constexpr const char *kPool = "attention.indexer.kpool";
  constexpr const char *kTail = "attention.indexer.kpool_select_tail";
  MOE_ASSIGN_OR_RETURN(config.pool, params.integer(kPool, 1, kMostSize, 1));
  if (config.pool > config.used)
    return params.error(StatusCode::InvalidFile, kPool,
                        fmt::format("is {}, expected at most the {} positions "
                                    "that are chosen",
                                    config.pool, config.used));
  config.used /= config.pool;
  MOE_ASSIGN_OR_RETURN(bool tail, params.flag(kTail, false));
  if (config.pool > 1 && !tail)
    return params.error(StatusCode::Unsupported, kTail,
                        "is false, but tokens before the first complete pool "
                        "attend to nothing else; supported: true");
  return Status::ok();
}

StatusOr<IndexQueries> buildIndexQueries(ModelBuilder &model,
                                         const LightningIndexer &config,
                                         const std::string &block, Value x,
                                         Value queries) {
  IndexQueries result;
  MOE_ASSIGN_OR_RETURN(result.q,
                       model.linear(queries, block + "indexer.attn_q_b",
                                    config.heads * config.key));
  MOE_ASSIGN_OR_RETURN(result.weights,
                       model.linear(x, block + "indexer.proj", config.heads));
  return result;
}

Value buildIndexChoice(ModelBuilder &model, const LightningIndexer &config,
                       const std::string &block, IndexQueries queries, Value kv,
                       int64_t ratio) {
  double scale = 1 / std::sqrt(double(config.key * config.heads));
  return model
      .create<moe::ChooseEntriesOp>(
          block + "indexer.choice", model.idRows(config.used), queries.q,
          queries.weights, kv, uint64_t(config.heads), uint64_t(config.key),
          uint64_t(config.used), llvm::APFloat(scale), uint64_t(ratio))
      .getResult();
}

/// Returns the keys of pools, each in the row of its last token.
static StatusOr<Value> poolKeys(ModelBuilder &model,
                                const LightningIndexer &config, int64_t layer,
                                const std::string &block, Value x, Value keys) {
  const std::string name = block + "indexer_compressor_";
  MOE_ASSIGN_OR_RETURN(Value gate, model.linear(x, name + "gate", config.key));
  MOE_ASSIGN_OR_RETURN(
      Value ape, model.vectors(name + "ape.weight", config.pool, config.key));
  return Value(model.create<moe::CompressOp>(
      block + "indexer.pools", keys.getType(), keys, gate, ape, uint64_t(layer),
      kIndexPart, uint64_t(config.pool), /*overlap=*/false));
}

StatusOr<Value> buildIndexer(ModelBuilder &model,
                             const LightningIndexer &config, int64_t layer,
                             const std::string &block, Value x, Value queries) {
  auto turn = [&](Value rows, const std::string &name, int64_t heads) -> Value {
    if (!config.rope)
      return rows;
    return model.create<moe::RopeOp>(name, rows.getType(), rows,
                                     uint64_t(heads), uint64_t(0), config.rope);
  };
  MOE_ASSIGN_OR_RETURN(IndexQueries q,
                       buildIndexQueries(model, config, block, x, queries));
  q.q = turn(q.q, block + "indexer.q_rope", config.heads);
  MOE_ASSIGN_OR_RETURN(Value k,
                       model.linear(x, block + "indexer.attn_k", config.key));
  std::string norm = block + "indexer.k_norm";
  MOE_ASSIGN_OR_RETURN(Value weight,
                       model.vector(norm + ".weight", config.key));
  MOE_ASSIGN_OR_RETURN(Value bias, model.vector(norm + ".bias", config.key));
  k = model.create<moe::LayerNormOp>(norm, k.getType(), k, weight, bias,
                                     llvm::APFloat(config.eps));
  k = turn(k, block + "indexer.k_rope", 1);
  if (config.pool > 1) {
    MOE_ASSIGN_OR_RETURN(k, poolKeys(model, config, layer, block, x, k));
  }
  Value kv = model.create<moe::RowStoreOp>(
      block + "indexer.keys", moe::KvType::get(k.getContext(), config.key), k,
      uint64_t(layer), kIndexPart, uint64_t(config.pool));
  return buildIndexChoice(model, config, block, q, kv, config.pool);
}

namespace {
/// Returns whether layer `layer` has an indexer; others use the choice of the
/// previous indexer, if there `isPrevious`. The key says it of the first
/// `listed` layers.
StatusOr<bool> hasIndexer(const ModelBuilder &model, int64_t listed,
                          int64_t layer, const std::string &block,
                          bool isPrevious) {
  constexpr const char *kTypes = "attention.indexer.types";
  bool said = layer < listed && model.params().has(kTypes);
  bool has = model.has(block + "indexer.attn_k");
  if (said) {
    MOE_ASSIGN_OR_RETURN(has, model.params().flagOfLayer(kTypes, layer));
  }
  if (has || isPrevious || layer >= listed)
    return has;
  return Status(
      StatusCode::InvalidFile,
      fmt::format("{}: {} leaves layer {} without an indexer, and no earlier "
                  "layer chooses positions for it",
                  model.file().paths().front(),
                  said ? fmt::format("key \"{}.{}\"",
                                     model.file().architecture(), kTypes)
                       : "a missing tensor \"" + block +
                             "indexer.attn_k.weight\"",
                  layer));
}

moe::RopeAttr withPairs(moe::RopeAttr rope, bool neox) {
  return moe::RopeAttr::get(rope.getContext(), rope.getDim(), rope.getBase(),
                            rope.getFactor(), rope.getOriginalContext(),
                            rope.getBetaFast(), rope.getBetaSlow(),
                            rope.getRounded(), rope.getMagnitude(),
                            rope.getDivisors(), neox, rope.getReversed());
}
} // namespace

StatusOr<Value> buildChosenAttention(ModelBuilder &model,
                                     const LatentAttention &attention,
                                     const LightningIndexer &indexer,
                                     int64_t layer, const std::string &block,
                                     Value x, Value &chosen) {
  MOE_ASSIGN_OR_RETURN(Value queries,
                       buildQueryLatent(model, attention, block, x));
  if (!queries)
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}: tensor \"{}attn_q_a.weight\" is missing, "
                              "which the indexer reads",
                              model.file().paths().front(), block));
  MOE_ASSIGN_OR_RETURN(bool chooses,
                       hasIndexer(model, indexer.listed, layer, block, bool(chosen)));
  if (chooses) {
    MOE_ASSIGN_OR_RETURN(
        chosen, buildIndexer(model, indexer, layer, block, x, queries));
  }
  return buildLatentAttention(model, attention, layer, block, x, queries,
                              chosen, indexer.pool);
}

Status buildSparseLatentModel(ModelBuilder &model, bool neox) {
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model, {.drafts = true}));
  MOE_ASSIGN_OR_RETURN(LatentAttention attention,
                       readLatentAttention(model, decoder.eps));
  MOE_ASSIGN_OR_RETURN(LightningIndexer indexer,
                       readIndexer(model, withPairs(attention.rope, neox)));
  indexer.listed = decoder.layers;
  RoutedExperts defaults;
  defaults.scoring = moe::Scoring::Sigmoid;
  defaults.ranksPairs = true;
  MOE_ASSIGN_OR_RETURN(std::vector<FeedForward> ffn,
                       readFeedForward(model, decoder, defaults));
  Value chosen;
  auto attend = [&](int64_t layer, const std::string &block, Value x) {
    // The layer of @draft cannot use a choice of @forward.
    if (layer >= decoder.layers)
      chosen = {};
    return buildChosenAttention(model, attention, indexer, layer, block, x,
                                chosen);
  };
  auto feedForward = [&](int64_t layer, const std::string &block, Value x,
                         Value /*begun*/) {
    return buildFeedForward(model, ffn[size_t(layer)], block, x);
  };
  return buildDecoder(model, decoder, {attend, feedForward});
}

} // namespace moec
