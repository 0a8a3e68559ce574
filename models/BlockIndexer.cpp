#include "models/BlockIndexer.h"

#include "models/Limits.h"

#include <fmt/format.h>

using mlir::Value;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

StatusOr<BlockIndexer> readBlockIndexer(ModelBuilder &model,
                                        const GroupedAttention &attention) {
  const HyperParams &params = model.params();
  constexpr const char *kGroups = "attention.indexer.head_count";
  constexpr const char *kUsed = "attention.indexer.top_k";
  BlockIndexer config;
  config.rope = attention.rope;
  config.eps = attention.eps;
  MOE_ASSIGN_OR_RETURN(config.groups, params.integer(kGroups, 1, kMostHeads));
  if (config.groups != attention.kvHeads)
    return params.error(
        StatusCode::InvalidFile, kGroups,
        fmt::format("is {}, expected one for each of the {} heads of keys",
                    config.groups, attention.kvHeads));
  MOE_ASSIGN_OR_RETURN(config.key,
                       params.integer("attention.indexer.key_length",
                                      config.rope.getDim(), kMostSize));
  MOE_ASSIGN_OR_RETURN(
      config.ratio,
      params.integer("attention.indexer.block_size", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(
      config.local,
      params.integer("attention.indexer.local_blocks", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(config.used, params.integer(kUsed, 1, kMostSize));
  if (config.used <= config.local)
    return params.error(
        StatusCode::Unsupported, kUsed,
        fmt::format("is {}, expected more than the {} local blocks",
                    config.used, config.local));
  return config;
}

StatusOr<BlockChoice> buildBlockChoice(ModelBuilder &model,
                                       const BlockIndexer &config,
                                       int64_t layer, const std::string &block,
                                       Value x) {
  auto project = [&](const std::string &part,
                     int64_t heads) -> StatusOr<Value> {
    const std::string name = block + "indexer." + part;
    MOE_ASSIGN_OR_RETURN(Value rows,
                         model.linear(x, name + "_proj", heads * config.key));
    MOE_ASSIGN_OR_RETURN(
        rows, model.rmsNorm(rows, name + "_norm", config.eps, heads));
    return Value(model.create<moe::RopeOp>(name + "_rope", rows.getType(), rows,
                                           uint64_t(heads), uint64_t(0),
                                           config.rope));
  };
  MOE_ASSIGN_OR_RETURN(Value q, project("q", config.groups));
  MOE_ASSIGN_OR_RETURN(Value k, project("k", 1));
  Value kv = model.create<moe::RowStoreOp>(
      block + "indexer.keys", moe::KvType::get(k.getContext(), config.key), k,
      uint64_t(layer), kIndexPart);
  const int64_t used = config.used - config.local;
  Value chosen = model.create<moe::ChooseBlocksOp>(
      block + "indexer.choice", model.idRows(config.groups * used), q, kv,
      uint64_t(config.groups), uint64_t(config.key), uint64_t(used),
      uint64_t(config.ratio), uint64_t(config.local));
  return BlockChoice{chosen, config.groups, config.ratio, config.local};
}

} // namespace moec
