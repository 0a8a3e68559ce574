#include "models/DeltaNet.h"

#include "kernels/Types.h"
#include "models/FeedForward.h"
#include "models/GroupedAttention.h"
#include "models/Limits.h"

#include <algorithm>
#include <fmt/format.h>

using mlir::Value;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

StatusOr<DeltaNet> readDeltaNet(ModelBuilder &model, const Decoder &decoder,
                                bool tiled) {
  const HyperParams &params = model.params();
  DeltaNet net;
  net.tiled = tiled;
  net.eps = decoder.eps;
  MOE_ASSIGN_OR_RETURN(net.taps,
                       params.integer("ssm.conv_kernel", 1, moek::kMaxTaps));
  MOE_ASSIGN_OR_RETURN(net.key, params.integer("ssm.state_size", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(net.keyHeads,
                       params.integer("ssm.group_count", 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(net.heads,
                       params.integer("ssm.time_step_rank", 1, kMostHeads));
  if (net.heads % net.keyHeads != 0)
    return params.error(StatusCode::InvalidFile, "ssm.time_step_rank",
                        fmt::format("is {}, expected a multiple of the {} "
                                    "heads of keys",
                                    net.heads, net.keyHeads));
  MOE_ASSIGN_OR_RETURN(int64_t inner,
                       params.integer("ssm.inner_size", 1, kMostSize));
  if (inner % net.heads != 0)
    return params.error(
        StatusCode::InvalidFile, "ssm.inner_size",
        fmt::format("is {}, expected a multiple of the {} heads", inner,
                    net.heads));
  net.value = inner / net.heads;
  return net;
}

namespace {
struct Inputs {
  Value mixed, gate, beta, alpha;
};

StatusOr<Inputs> project(ModelBuilder &model, const DeltaNet &net,
                         const std::string &block, Value x) {
  Inputs in;
  int64_t keys = net.keyHeads * net.key, values = net.heads * net.value;
  // Number of value heads for each key head.
  int64_t each = net.heads / net.keyHeads;
  if (model.has(block + "ssm_in")) {
    MOE_ASSIGN_OR_RETURN(
        Value all, model.linear(x, block + "ssm_in", 2 * keys + 2 * values));
    int64_t group = each * net.value;
    in.mixed = model.regroup(all, block + "ssm_qkv", net.keyHeads, 0,
                             {net.key, net.key, group});
    in.gate = model.regroup(all, block + "ssm_gate", net.keyHeads,
                            2 * net.key + group, {group});
  } else {
    MOE_ASSIGN_OR_RETURN(
        in.mixed, model.linear(x, block + "attn_qkv", 2 * keys + values));
    MOE_ASSIGN_OR_RETURN(in.gate, model.linear(x, block + "attn_gate", values));
  }
  if (model.has(block + "ssm_ba")) {
    MOE_ASSIGN_OR_RETURN(Value both,
                         model.linear(x, block + "ssm_ba", 2 * net.heads));
    in.beta = model.regroup(both, block + "ssm_beta", net.keyHeads, 0, {each});
    in.alpha =
        model.regroup(both, block + "ssm_alpha", net.keyHeads, each, {each});
  } else {
    MOE_ASSIGN_OR_RETURN(in.beta,
                         model.linear(x, block + "ssm_beta", net.heads));
    MOE_ASSIGN_OR_RETURN(in.alpha,
                         model.linear(x, block + "ssm_alpha", net.heads));
  }
  return in;
}
} // namespace

StatusOr<Value> buildDeltaNet(ModelBuilder &model, const DeltaNet &net,
                              int64_t layer, const std::string &block,
                              Value x) {
  MOE_ASSIGN_OR_RETURN(Inputs in, project(model, net, block, x));
  MOE_ASSIGN_OR_RETURN(Value conv,
                       model.vectors(block + "ssm_conv1d.weight",
                                     columnsOf(in.mixed), net.taps));
  MOE_ASSIGN_OR_RETURN(Value a, model.vector(block + "ssm_a", net.heads));
  MOE_ASSIGN_OR_RETURN(Value dt,
                       model.vector(block + "ssm_dt.bias", net.heads));
  Value out = model.create<moe::DeltaNetOp>(
      block + "delta_net", model.rows(net.heads * net.value), in.mixed, in.beta,
      in.alpha, conv, /*bias=*/Value(), a, dt, /*skip=*/Value(),
      uint64_t(layer), uint64_t(net.keyHeads), uint64_t(net.heads),
      uint64_t(net.key), uint64_t(net.value), llvm::APFloat(net.eps),
      llvm::APFloat(0.0), net.tiled, /*sums=*/false);
  MOE_ASSIGN_OR_RETURN(
      out, model.rmsNorm(out, block + "ssm_norm", net.eps, net.heads));
  Value gated;
  if (net.gate)
    gated = model.create<moe::GateMulOp>(block + "ssm_gated", out.getType(),
                                         out, in.gate, *net.gate);
  else
    gated =
        model.create<moe::ActivationMulOp>(block + "ssm_gated", out.getType(),
                                           in.gate, out, moe::Activation::Silu);
  return model.linear(gated, block + "ssm_out", columnsOf(x));
}

StatusOr<Value> buildMamba(ModelBuilder &model, const DeltaNet &net,
                           int64_t layer, const std::string &block, Value x) {
  int64_t inner = net.heads * net.value;
  int64_t mixed = inner + 2 * net.keyHeads * net.key;
  auto project = [&](const char *part, int64_t begin, int64_t rows) {
    return model.linearRows(x, block + part, block + "ssm_in",
                            inner + mixed + net.heads, begin, rows);
  };
  MOE_ASSIGN_OR_RETURN(Value gate, project("ssm_gate", 0, inner));
  MOE_ASSIGN_OR_RETURN(Value xbc, project("ssm_xbc", inner, mixed));
  MOE_ASSIGN_OR_RETURN(Value dt, project("ssm_dt", inner + mixed, net.heads));
  MOE_ASSIGN_OR_RETURN(
      Value conv, model.vectors(block + "ssm_conv1d.weight", mixed, net.taps));
  MOE_ASSIGN_OR_RETURN(Value bias,
                       model.vectorIfAny(block + "ssm_conv1d.bias", mixed));
  MOE_ASSIGN_OR_RETURN(Value a, model.flatVector(block + "ssm_a", net.heads));
  MOE_ASSIGN_OR_RETURN(Value skip,
                       model.flatVector(block + "ssm_d", net.heads));
  MOE_ASSIGN_OR_RETURN(Value shift,
                       model.vector(block + "ssm_dt.bias", net.heads));
  Value out = model.create<moe::DeltaNetOp>(
      block + "mamba", model.rows(inner), xbc, /*beta=*/Value(), dt, conv, bias,
      a, shift, skip, uint64_t(layer), uint64_t(net.keyHeads),
      uint64_t(net.heads), uint64_t(net.key), uint64_t(net.value),
      llvm::APFloat(0.0), llvm::APFloat(0.0), /*tiled=*/false, /*sums=*/true);
  out = model.create<moe::ActivationMulOp>(block + "ssm_gated", out.getType(),
                                           gate, out, moe::Activation::Silu);
  if (model.has(block + "ssm_norm")) {
    MOE_ASSIGN_OR_RETURN(Value norm,
                         model.flatVector(block + "ssm_norm.weight", inner));
    out = model.create<moe::RmsNormOp>(block + "ssm_norm", out.getType(), out,
                                       norm, llvm::APFloat(net.eps),
                                       uint64_t(net.keyHeads));
  }
  return model.linear(out, block + "ssm_out", columnsOf(x));
}

StatusOr<std::vector<bool>> readRecurrentLayers(const ModelBuilder &model,
                                                const Decoder &decoder) {
  const HyperParams &params = model.params();
  // Some writers mark layers without attention by 0 heads of keys.
  std::vector<bool> attends;
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    MOE_ASSIGN_OR_RETURN(bool has, hasAttention(model, layer));
    attends.push_back(has);
  }
  const bool isSaid = std::ranges::find(attends, false) != attends.end();
  std::vector<bool> recurrent;
  bool listed = params.has("attention.recurrent_layers");
  MOE_ASSIGN_OR_RETURN(
      int64_t interval,
      params.integer("full_attention_interval", 1, kMostLayers, 4));
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    bool keeps = isSaid ? !attends[size_t(layer)] : (layer + 1) % interval != 0;
    if (listed) {
      MOE_ASSIGN_OR_RETURN(
          keeps, params.flagOfLayer("attention.recurrent_layers", layer));
    }
    recurrent.push_back(keeps);
  }
  // A layer for multi-token prediction has attention.
  recurrent.resize(size_t(decoder.built()), false);
  return recurrent;
}

int64_t firstAttention(const std::vector<bool> &recurrent) {
  auto first = std::ranges::find(recurrent, false);
  return first == recurrent.end() ? 0 : first - recurrent.begin();
}

moert::Status buildDeltaTransformer(ModelBuilder &model, bool tiled) {
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model, {.drafts = true}));
  MOE_ASSIGN_OR_RETURN(std::vector<bool> recurrent,
                       readRecurrentLayers(model, decoder));
  MOE_ASSIGN_OR_RETURN(GroupedAttention attention,
                       readGroupedAttention(model, decoder, RopeTraits(),
                                            firstAttention(recurrent)));
  attention.gated = true;
  MOE_ASSIGN_OR_RETURN(DeltaNet net, readDeltaNet(model, decoder, tiled));
  RoutedExperts experts;
  experts.normalize = true;
  MOE_ASSIGN_OR_RETURN(std::vector<FeedForward> ffn,
                       readFeedForward(model, decoder, experts,
                                       /*mayBeDense=*/true));
  auto attend = [&](int64_t layer, const std::string &block, Value x) {
    return recurrent[size_t(layer)]
               ? buildDeltaNet(model, net, layer, block, x)
               : buildGroupedAttention(model, attention, layer, block, x);
  };
  auto feedForward = [&](int64_t layer, const std::string &block, Value x,
                         Value /*begun*/) {
    return buildFeedForward(model, ffn[size_t(layer)], block, x);
  };
  return buildDecoder(model, decoder, {attend, feedForward});
}

} // namespace moec
