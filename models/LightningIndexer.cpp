#include "models/LightningIndexer.h"

#include "models/FeedForward.h"
#include "models/GroupedAttention.h"
#include "models/LatentAttention.h"
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
  MOE_ASSIGN_OR_RETURN(
      config.key,
      params.integer("attention.indexer.key_length", rope.getDim(), kMostSize));
  MOE_ASSIGN_OR_RETURN(config.used,
                       params.integer("attention.indexer.top_k", 1, kMostSize));
  return config;
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

StatusOr<Value> buildIndexer(ModelBuilder &model,
                             const LightningIndexer &config, int64_t layer,
                             const std::string &block, Value x, Value queries) {
  // Files have no key for this epsilon.
  constexpr double kEps = 1e-6;
  auto turn = [&](Value rows, const std::string &name, int64_t heads) -> Value {
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
                                     llvm::APFloat(kEps));
  k = turn(k, block + "indexer.k_rope", 1);
  Value kv = model.create<moe::RowStoreOp>(
      block + "indexer.keys", moe::KvType::get(k.getContext(), config.key), k,
      uint64_t(layer), kIndexPart);
  return buildIndexChoice(model, config, block, q, kv, /*ratio=*/1);
}

namespace {
/// Returns whether layer `layer` has an indexer; others use the choice of the
/// previous indexer.
StatusOr<bool> hasIndexer(const ModelBuilder &model, int64_t layer,
                          const std::string &block) {
  constexpr const char *kTypes = "attention.indexer.types";
  bool said = model.params().has(kTypes);
  bool has = model.has(block + "indexer.attn_k");
  if (said) {
    MOE_ASSIGN_OR_RETURN(has, model.params().flagOfLayer(kTypes, layer));
  }
  if (has || layer > 0)
    return has;
  return Status(
      StatusCode::InvalidFile,
      fmt::format("{}: {} leaves the first layer without an indexer, and no "
                  "earlier layer chooses positions for it",
                  model.file().paths().front(),
                  said ? fmt::format("key \"{}.{}\"",
                                     model.file().architecture(), kTypes)
                       : "a missing tensor \"" + block +
                             "indexer.attn_k.weight\""));
}

moe::RopeAttr withPairs(moe::RopeAttr rope, bool neox) {
  return moe::RopeAttr::get(rope.getContext(), rope.getDim(), rope.getBase(),
                            rope.getFactor(), rope.getOriginalContext(),
                            rope.getBetaFast(), rope.getBetaSlow(),
                            rope.getRounded(), rope.getMagnitude(),
                            rope.getDivisors(), neox, rope.getReversed());
}
} // namespace

Status buildSparseLatentModel(ModelBuilder &model, bool neox) {
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  MOE_ASSIGN_OR_RETURN(LatentAttention attention,
                       readLatentAttention(model, decoder.eps));
  MOE_ASSIGN_OR_RETURN(LightningIndexer indexer,
                       readIndexer(model, withPairs(attention.rope, neox)));
  RoutedExperts defaults;
  defaults.scoring = moe::Scoring::Sigmoid;
  defaults.ranksPairs = true;
  MOE_ASSIGN_OR_RETURN(std::vector<FeedForward> ffn,
                       readFeedForward(model, decoder, defaults));
  Value chosen;
  auto attend = [&](int64_t layer, const std::string &block,
                    Value x) -> StatusOr<Value> {
    MOE_ASSIGN_OR_RETURN(Value queries,
                         buildQueryLatent(model, attention, block, x));
    if (!queries)
      return Status(StatusCode::InvalidFile,
                    fmt::format("{}: tensor \"{}attn_q_a.weight\" is missing, "
                                "which the indexer reads",
                                model.file().paths().front(), block));
    MOE_ASSIGN_OR_RETURN(bool chooses, hasIndexer(model, layer, block));
    if (chooses) {
      MOE_ASSIGN_OR_RETURN(
          chosen, buildIndexer(model, indexer, layer, block, x, queries));
    }
    return buildLatentAttention(model, attention, layer, block, x, queries,
                                chosen);
  };
  auto feedForward = [&](int64_t layer, const std::string &block, Value x,
                         Value /*begun*/) {
    return buildFeedForward(model, ffn[size_t(layer)], block, x);
  };
  return buildDecoder(model, decoder, {attend, feedForward});
}

} // namespace moec
