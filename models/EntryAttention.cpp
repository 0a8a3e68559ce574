#include "models/EntryAttention.h"

#include "models/Limits.h"
#include "models/Rope.h"

#include <cmath>
#include <fmt/format.h>

using mlir::Value;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
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
} // namespace

StatusOr<EntryAttention> readEntryAttention(ModelBuilder &model, double eps) {
  const HyperParams &params = model.params();
  EntryAttention a;
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

Value rotateTail(ModelBuilder &model, const std::string &label, Value x,
                 int64_t heads, moe::RopeAttr rope) {
  int64_t offset = columnsOf(x) / heads - rope.getDim();
  return model.create<moe::RopeOp>(label, x.getType(), x, uint64_t(heads),
                                   uint64_t(offset), rope);
}

StatusOr<Value> buildLowQueries(ModelBuilder &model, const EntryAttention &a,
                                const std::string &block, Value x) {
  MOE_ASSIGN_OR_RETURN(Value low,
                       model.linear(x, block + "attn_q_a", a.queryRank));
  return model.rmsNorm(low, block + "attn_q_a_norm", a.eps);
}

StatusOr<WindowRows> buildWindow(ModelBuilder &model, const EntryAttention &a,
                                 int64_t layer, const std::string &block,
                                 Value x, Value low, bool seesEntries,
                                 bool normsQueries) {
  int64_t heads = a.heads;
  moe::RopeAttr rope = seesEntries ? a.entryRope : a.windowRope;
  MOE_ASSIGN_OR_RETURN(Value q,
                       model.linear(low, block + "attn_q_b", heads * a.key));
  if (normsQueries)
    q = model.rmsNormOnly(q, block + "attn_q_norm", a.eps, heads);
  q = rotateTail(model, block + "attn_q_rope", q, heads, rope);
  MOE_ASSIGN_OR_RETURN(Value kv, model.linear(x, block + "attn_kv", a.key));
  MOE_ASSIGN_OR_RETURN(kv, model.rmsNorm(kv, block + "attn_kv_a_norm", a.eps));
  kv = rotateTail(model, block + "attn_kv_rope", kv, 1, rope);
  Value rows = model.create<moe::RowStoreOp>(
      block + "attn_rows", moe::KvType::get(x.getContext(), a.key), kv,
      uint64_t(layer), kWindowPart);
  return WindowRows{q, rows};
}

StatusOr<Value> buildEntryAttention(ModelBuilder &model,
                                    const EntryAttention &a,
                                    const std::string &block,
                                    const WindowRows &window,
                                    const SeenEntries &seen, int64_t hidden) {
  int64_t heads = a.heads;
  moe::RopeAttr rope = seen.ratio ? a.entryRope : a.windowRope;
  MOE_ASSIGN_OR_RETURN(Value sinks,
                       model.vector(block + "attn_sinks.weight", heads));
  Value mixed = model.create<moe::SparseAttentionOp>(
      block + "attention", window.q.getType(), window.q, window.rows,
      seen.entries, seen.chosen, sinks, uint64_t(heads), uint64_t(a.key),
      uint64_t(a.key), llvm::APFloat(1 / std::sqrt(double(a.key))),
      uint64_t(a.window), uint64_t(seen.ratio));
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

} // namespace moec
