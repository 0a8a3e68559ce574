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
  // Files have no number for the sparse mixer.
  if (std::optional<moe::Scoring> scoring =
          moe::symbolizeScoring(uint32_t(number));
      scoring && *scoring != moe::Scoring::SparseMixer)
    return *scoring;
  return params.error(
      StatusCode::Unsupported, "expert_gating_func",
      fmt::format("is {}; supported: 1 (softmax), 2 (sigmoid), 3 (softmax over "
                  "the selected), 4 (square root of softplus)",
                  number));
}
} // namespace

StatusOr<RoutedExperts> readRoutedExperts(const HyperParams &params,
                                          RoutedExperts config) {
  MOE_ASSIGN_OR_RETURN(config.experts,
                       params.integer("expert_count", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(config.used,
                       params.integer("expert_used_count", 1, config.experts));
  std::optional<int64_t> inner;
  if (config.inner > 0)
    inner = config.inner;
  MOE_ASSIGN_OR_RETURN(
      config.inner,
      params.integer("expert_feed_forward_length", 1, kMostSize, inner));
  MOE_ASSIGN_OR_RETURN(
      config.shared,
      params.integer("expert_shared_count", 0, kMostSize / config.inner, 0));
  MOE_ASSIGN_OR_RETURN(config.sharedInner,
                       params.integer("expert_shared_feed_forward_length", 0,
                                      kMostSize, config.shared * config.inner));
  MOE_ASSIGN_OR_RETURN(config.scoring, readScoring(params, config.scoring));
  MOE_ASSIGN_OR_RETURN(bool normalize,
                       params.flag("expert_weights_norm", false));
  config.normalize |= normalize;
  MOE_ASSIGN_OR_RETURN(config.scale,
                       params.positive("expert_weights_scale", 1.0, true));
  if (config.scale == 0)
    config.scale = 1;
  // 0 groups and 1 group both mean that there are no groups.
  MOE_ASSIGN_OR_RETURN(int64_t groups, params.integer("expert_group_count", 0,
                                                      config.experts, 0));
  params.skip({"expert_group_used_count"});
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

namespace {
/// Loads the matrices ffn_`part` of all experts [experts, rows, columns].
StatusOr<Value> loadExperts(ModelBuilder &model, int64_t experts,
                            const std::string &block, const std::string &part,
                            int64_t rows, int64_t columns) {
  std::string stacked = block + "ffn_" + part + "_exps";
  std::string single = block + "ffn_" + part + ".";
  if (model.has(stacked) || !model.has(single + "0"))
    return model.weight(stacked, {experts, rows, columns});
  std::vector<Value> matrices;
  for (int64_t expert = 0; expert < experts; ++expert) {
    MOE_ASSIGN_OR_RETURN(
        Value matrix,
        model.weight(single + std::to_string(expert), {rows, columns}));
    matrices.push_back(matrix);
  }
  return model.stack(matrices, block + "ffn_" + part);
}

struct ExpertWeights {
  Value gate, up, down, gateBias, upBias, downBias, gateScale, upScale;
};

/// Loads the optional scales of experts' matrices `name`, one number each.
StatusOr<Value> loadScales(ModelBuilder &model, const std::string &name,
                           int64_t experts, bool alone) {
  MOE_ASSIGN_OR_RETURN(bool any, model.hasScale(name, alone));
  if (!any)
    return Value();
  return model.numbersIfAny(name + ".scale", experts);
}

StatusOr<ExpertWeights> loadWeights(ModelBuilder &model,
                                    const RoutedExperts &config,
                                    const std::string &block, int64_t hidden) {
  int64_t experts = config.experts, inner = config.inner;
  ExpertWeights weights;
  std::string fused = block + "ffn_gate_up_exps";
  if (model.has(fused)) {
    if (model.find(fused + ".bias"))
      return Status(StatusCode::Unsupported,
                    fmt::format("{}: tensor \"{}.bias\" fuses the biases of "
                                "gate and up; convert the model with separate "
                                "ffn_gate_exps and ffn_up_exps",
                                model.file().paths().front(), fused));
    MOE_ASSIGN_OR_RETURN(Value both,
                         model.weight(fused, {experts, 2 * inner, hidden}));
    weights.gate = model.slice(both, 0, inner);
    weights.up = model.slice(both, inner, inner);
  } else {
    MOE_ASSIGN_OR_RETURN(
        weights.up, loadExperts(model, experts, block, "up", inner, hidden));
    weights.gate = weights.up;
    if (config.gated) {
      MOE_ASSIGN_OR_RETURN(weights.gate, loadExperts(model, experts, block,
                                                     "gate", inner, hidden));
    }
  }
  MOE_ASSIGN_OR_RETURN(
      weights.down, loadExperts(model, experts, block, "down", hidden, inner));
  MOE_ASSIGN_OR_RETURN(
      weights.gateBias,
      model.vectorsIfAny(block + "ffn_gate_exps.bias", experts, inner));
  MOE_ASSIGN_OR_RETURN(
      weights.upBias,
      model.vectorsIfAny(block + "ffn_up_exps.bias", experts, inner));
  MOE_ASSIGN_OR_RETURN(
      weights.downBias,
      model.vectorsIfAny(block + "ffn_down_exps.bias", experts, hidden));
  bool alone = config.limit == 0 && !weights.gateBias && !weights.upBias;
  // A fused weight has one scale for both parts.
  bool isFused = model.has(fused);
  MOE_ASSIGN_OR_RETURN(weights.gateScale,
                       loadScales(model,
                                  isFused ? fused : block + "ffn_gate_exps",
                                  experts, alone));
  if (!config.gated) {
    MOE_ASSIGN_OR_RETURN(
        weights.gateScale,
        loadScales(model, block + "ffn_up_exps", experts, alone));
  }
  MOE_ASSIGN_OR_RETURN(weights.upScale,
                       loadScales(model,
                                  isFused ? fused : block + "ffn_up_exps",
                                  experts, alone));
  // The router applies the scale of down, which is not possible with a bias.
  MOE_RETURN_IF_ERROR(
      model.hasScale(block + "ffn_down_exps", !weights.downBias).status());
  return weights;
}

/// Builds the shared experts for `x`, times the sigmoid of a per-token gate if
/// the file has one. Returns null without shared experts.
StatusOr<Value> buildShared(ModelBuilder &model, const RoutedExperts &config,
                            const std::string &block, Value x) {
  // Files without a count of shared experts may still have them.
  const GgufTensor *gate = model.find(block + "ffn_gate_shexp.weight");
  if (config.sharedInner == 0 && !gate)
    return Value();
  if (!config.gated)
    return model.plainFfn(x, block, config.sharedInner, config.activation,
                          /*squares=*/true, "_shexp");
  int64_t inner =
      config.sharedInner > 0 ? config.sharedInner : int64_t(gate->shape[1]);
  // Some writers store the width of a single shared expert, although there are
  // several.
  if (gate && int64_t(gate->shape[1]) == config.shared * config.sharedInner)
    inner = int64_t(gate->shape[1]);
  MOE_ASSIGN_OR_RETURN(
      Value shared, model.ffn(x, block, "_shexp", inner, block + "ffn_shared",
                              config.activation, config.sharedLimit,
                              config.clampsActivated, config.softLimit));
  if (!model.has(block + "ffn_gate_inp_shexp"))
    return shared;
  MOE_ASSIGN_OR_RETURN(Value factor,
                       model.linear(x, block + "ffn_gate_inp_shexp", 1));
  return model
      .create<moe::GateMulOp>(block + "ffn_shared_gate", shared.getType(),
                              shared, factor)
      .getResult();
}
} // namespace

namespace {
/// The selected experts and their weights.
struct Choice {
  Value ids, weights;
};

StatusOr<Choice> buildRouter(ModelBuilder &model, const RoutedExperts &config,
                             const std::string &block, Value x, Value tokens,
                             const char *label = "router") {
  MOE_ASSIGN_OR_RETURN(
      Value gateIn,
      model.weight(block + "ffn_gate_inp", {config.experts, columnsOf(x)}));
  MOE_ASSIGN_OR_RETURN(
      Value scale,
      model.vectorIfAny(block + "ffn_down_exps.scale", config.experts));
  const GgufTensor *hashed = model.find(block + "ffn_gate_tid2eid.weight");
  if (hashed && tokens) {
    MOE_ASSIGN_OR_RETURN(Value table,
                         model.table(block + "ffn_gate_tid2eid",
                                     model.facts().vocab, config.used));
    auto router = model.create<moe::HashRouterOp>(
        block + "router", model.idRows(config.used), model.rows(config.used), x,
        tokens, gateIn, table, scale, config.scoring, config.normalize,
        llvm::APFloat(config.scale));
    return Choice{router.getIds(), router.getWeights()};
  }
  MOE_ASSIGN_OR_RETURN(
      Value logitBias,
      model.vectorIfAny(block + "ffn_gate_inp.bias", config.experts));
  // Files of Hunyuan name this tensor without the suffix ".bias".
  const std::string correction = block + "exp_probs_b";
  MOE_ASSIGN_OR_RETURN(Value bias, model.vectorIfAny(model.find(correction)
                                                         ? correction
                                                         : correction + ".bias",
                                                     config.experts));
  bool pairs = config.groups > 1 && config.experts / config.groups > 1 &&
               (bias || config.ranksPairs);
  auto router = model.create<moe::RouterOp>(
      block + label, model.idRows(config.used), model.rows(config.used), x,
      gateIn, logitBias, bias, scale, uint64_t(config.used), config.scoring,
      uint64_t(config.groups), uint64_t(config.groupsUsed),
      uint64_t(pairs ? 2 : 1), config.normalize, llvm::APFloat(config.scale));
  return Choice{router.getIds(), router.getWeights()};
}
} // namespace

/// Loads ffn_`part`_chexps, a matrix for each `perSmall` experts, as one for
/// each expert.
static StatusOr<Value> loadSmall(ModelBuilder &model,
                                 const RoutedExperts &config,
                                 const std::string &block,
                                 const std::string &part, int64_t rows,
                                 int64_t columns) {
  const std::string name = block + "ffn_" + part + "_chexps";
  int64_t count = config.experts / config.perSmall;
  MOE_ASSIGN_OR_RETURN(Value all, model.weight(name, {count, rows, columns}));
  std::vector<Value> matrices;
  for (int64_t expert = 0; expert < config.experts; ++expert)
    matrices.push_back(model.matrix(all, expert / config.perSmall));
  return model.stack(matrices, name);
}

/// Builds the small experts of the groups of the chosen experts `ids`.
static StatusOr<Value> buildSmall(ModelBuilder &model,
                                  const RoutedExperts &config,
                                  const std::string &block, Value x,
                                  const Choice &choice) {
  int64_t hidden = columnsOf(x), inner = config.smallInner;
  MOE_ASSIGN_OR_RETURN(Value gate,
                       loadSmall(model, config, block, "gate", inner, hidden));
  MOE_ASSIGN_OR_RETURN(Value up,
                       loadSmall(model, config, block, "up", inner, hidden));
  MOE_ASSIGN_OR_RETURN(Value down,
                       loadSmall(model, config, block, "down", hidden, inner));
  Value weights =
      model.scale(choice.weights, block + "router_small", config.smallScale);
  return model
      .create<moe::ExpertsOp>(
          block + "ffn_small_experts", x.getType(), x, choice.ids, weights,
          gate, up, down, Value(), Value(), Value(), Value(), Value(),
          /*residual=*/nullptr, config.activation, llvm::APFloat(0.0),
          /*slice=*/nullptr, /*fused=*/false, /*clampsActivated=*/false,
          llvm::APFloat(0.0))
      .getResult();
}

StatusOr<Value> buildRoutedExperts(ModelBuilder &model,
                                   const RoutedExperts &config,
                                   const std::string &block, Value x,
                                   Value routed, Value tokens) {
  MOE_ASSIGN_OR_RETURN(Choice router, buildRouter(model, config, block,
                                                  routed ? routed : x, tokens));
  Value read = x;
  if (config.weighsInput) {
    read = model.create<moe::GateMulOp>(block + "ffn_weighed", x.getType(), x,
                                        router.weights, moe::Gate::Identity);
    // A single normalised weight is 1.
    RoutedExperts plain = config;
    plain.normalize = true;
    MOE_ASSIGN_OR_RETURN(
        router, buildRouter(model, plain, block, x, tokens, "router_choice"));
  }
  const std::string latent =
      block +
      (model.has(block + "ffn_routed_down") ? "ffn_routed_" : "ffn_latent_");
  if (config.latent > 0) {
    MOE_ASSIGN_OR_RETURN(read, model.linear(x, latent + "down", config.latent));
  }
  MOE_ASSIGN_OR_RETURN(ExpertWeights w,
                       loadWeights(model, config, block, columnsOf(read)));
  // The shared experts come first, so that routed ones, which end last, add to
  // their result.
  MOE_ASSIGN_OR_RETURN(Value shared, buildShared(model, config, block, x));
  Value mixed = model.create<moe::ExpertsOp>(
      block + "ffn_experts", read.getType(), read, router.ids, router.weights,
      w.gate, w.up, w.down, w.gateBias, w.upBias, w.downBias, w.gateScale,
      w.upScale,
      /*residual=*/nullptr, config.activation, llvm::APFloat(config.limit),
      /*slice=*/nullptr,
      /*fused=*/false, config.clampsActivated, llvm::APFloat(config.softLimit));
  if (config.latent > 0) {
    if (model.has(latent + "norm")) {
      MOE_ASSIGN_OR_RETURN(
          mixed, model.rmsNorm(mixed, latent + "norm", config.latentEps));
    }
    MOE_ASSIGN_OR_RETURN(mixed,
                         model.linear(mixed, latent + "up", columnsOf(x)));
  }
  if (config.smallInner > 0) {
    MOE_ASSIGN_OR_RETURN(Value small,
                         buildSmall(model, config, block, x, router));
    mixed = model.create<moe::AddOp>(block + "ffn_small_add", small, mixed);
  }
  if (!shared)
    return mixed;
  Value sum = model.create<moe::AddOp>(block + "ffn_shared_add", shared, mixed);
  return config.sumScale == 1
             ? sum
             : model.scale(sum, block + "ffn_shared_scale", config.sumScale);
}

} // namespace moec
