#include "models/RoutedExperts.h"

#include "models/Limits.h"

#include <fmt/format.h>

using mlir::Value;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
StatusOr<moe::Scoring> readScoring(const HyperParams &params,
                                   moe::Scoring fallback) {
  MOE_ASSIGN_OR_RETURN(int64_t number,
                       params.integer("expert_gating_func", 0, INT32_MAX, 0));
  if (number == 0)
    return fallback;
  if (std::optional<moe::Scoring> scoring =
          moe::symbolizeScoring(uint32_t(number)))
    return *scoring;
  return params.error(
      StatusCode::Unsupported, "expert_gating_func",
      fmt::format("is {}; supported: 1 (softmax), 2 (sigmoid), 3 (softmax over "
                  "the selected)",
                  number));
}
} // namespace

StatusOr<RoutedExperts> readRoutedExperts(const HyperParams &params,
                                          RoutedExperts config) {
  MOE_ASSIGN_OR_RETURN(config.experts,
                       params.integer("expert_count", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(config.used,
                       params.integer("expert_used_count", 1, config.experts));
  MOE_ASSIGN_OR_RETURN(
      config.inner, params.integer("expert_feed_forward_length", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(
      config.shared,
      params.integer("expert_shared_count", 0, kMostSize / config.inner, 0));
  MOE_ASSIGN_OR_RETURN(config.scoring, readScoring(params, config.scoring));
  MOE_ASSIGN_OR_RETURN(config.normalize,
                       params.flag("expert_weights_norm", config.normalize));
  MOE_ASSIGN_OR_RETURN(config.scale,
                       params.positive("expert_weights_scale", 1.0, true));
  if (config.scale == 0)
    config.scale = 1;
  // 0 groups and 1 group are the same: no groups.
  MOE_ASSIGN_OR_RETURN(int64_t groups, params.integer("expert_group_count", 0,
                                                      config.experts, 0));
  if (groups <= 1)
    return config;
  config.groups = groups;
  MOE_ASSIGN_OR_RETURN(config.groupsUsed,
                       params.integer("expert_group_used_count", 1, groups));
  if (config.experts % groups != 0)
    return params.error(StatusCode::InvalidFile, "expert_group_count",
                        fmt::format("is {}, expected a divisor of the {} "
                                    "experts",
                                    groups, config.experts));
  return config;
}

StatusOr<Value> buildRoutedExperts(ModelBuilder &model,
                                   const RoutedExperts &config,
                                   const std::string &block, Value x) {
  int64_t hidden = columnsOf(x);
  if (model.has(block + "ffn_gate_up_exps"))
    return Status(StatusCode::Unsupported,
                  fmt::format("{}: tensor \"{}ffn_gate_up_exps.weight\" fuses "
                              "gate and up; convert the model with separate "
                              "ffn_gate_exps and ffn_up_exps",
                              model.file().paths().front(), block));
  MOE_ASSIGN_OR_RETURN(Value gateIn, model.weight(block + "ffn_gate_inp",
                                                  {config.experts, hidden}));
  Value bias;
  std::string biasName = block + "exp_probs_b.bias";
  if (model.file().findTensor(biasName)) {
    MOE_ASSIGN_OR_RETURN(bias, model.vector(biasName, config.experts));
  }
  auto router = model.create<moe::RouterOp>(
      block + "router", model.idRows(config.used), model.rows(config.used), x,
      gateIn, bias, uint64_t(config.used), config.scoring,
      uint64_t(config.groups), uint64_t(config.groupsUsed), config.normalize,
      llvm::APFloat(config.scale));
  MOE_ASSIGN_OR_RETURN(Value gate,
                       model.weight(block + "ffn_gate_exps",
                                    {config.experts, config.inner, hidden}));
  MOE_ASSIGN_OR_RETURN(Value up,
                       model.weight(block + "ffn_up_exps",
                                    {config.experts, config.inner, hidden}));
  MOE_ASSIGN_OR_RETURN(Value down,
                       model.weight(block + "ffn_down_exps",
                                    {config.experts, hidden, config.inner}));
  // Files that do not count their shared experts may still have them.
  const GgufTensor *sharedGate =
      model.file().findTensor(block + "ffn_gate_shexp.weight");
  Value shared;
  // Before the routed ones, so that those add to its result: they end last.
  if (config.shared != 0 || sharedGate) {
    int64_t inner = config.shared > 0 ? config.shared * config.inner
                                      : int64_t(sharedGate->shape[1]);
    MOE_ASSIGN_OR_RETURN(
        shared, model.ffn(x, block, "_shexp", inner, block + "ffn_shared"));
  }
  Value routed = model.create<moe::ExpertsOp>(
      block + "ffn_experts", x.getType(), x, router.getIds(),
      router.getWeights(), gate, up, down, /*residual=*/nullptr,
      /*fused=*/false);
  if (!shared)
    return routed;
  return model.create<moe::AddOp>(block + "ffn_shared_add", shared, routed)
      .getResult();
}

} // namespace moec
