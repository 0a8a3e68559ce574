#include "models/KimiDelta.h"

#include "kernels/Types.h"
#include "models/Limits.h"

#include <fmt/format.h>

using mlir::Value;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

StatusOr<KimiDelta> readKimiDelta(ModelBuilder &model, double eps) {
  const HyperParams &params = model.params();
  KimiDelta net;
  net.eps = eps;
  MOE_ASSIGN_OR_RETURN(net.heads,
                       params.integer("attention.head_count", 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(net.size, params.integer("kda.head_dim", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(net.taps,
                       params.integer("ssm.conv_kernel", 1, moek::kMaxTaps));
  MOE_ASSIGN_OR_RETURN(
      net.floor, params.within("kda.gate_lower_bound", -kMostScale, 0, 0.0));
  MOE_ASSIGN_OR_RETURN(bool bounded,
                       params.flag("kda.safe_gate", net.floor < 0));
  if (bounded != (net.floor < 0))
    return params.error(StatusCode::Unsupported, "kda.safe_gate",
                        fmt::format("is {}, but kda.gate_lower_bound is {}",
                                    bounded, net.floor));
  return net;
}

namespace {
/// Returns x times ssm_`name`_a, and times ssm_`name`_b if the file has that.
StatusOr<Value> projectTwice(ModelBuilder &model, const std::string &name,
                             Value x, int64_t columns) {
  const GgufTensor *second = model.find(name + "_b.weight");
  if (!second)
    return model.linear(x, name + "_a", columns);
  MOE_ASSIGN_OR_RETURN(x,
                       model.linear(x, name + "_a", int64_t(second->shape[0])));
  return model.linear(x, name + "_b", columns);
}
} // namespace

StatusOr<Value> buildKimiDelta(ModelBuilder &model, const KimiDelta &net,
                               int64_t layer, const std::string &block,
                               Value x) {
  const int64_t columns = net.heads * net.size;
  std::vector<Value> parts, convs;
  for (const char *part : {"q", "k", "v"}) {
    MOE_ASSIGN_OR_RETURN(Value y,
                         model.linear(x, block + "attn_" + part, columns));
    MOE_ASSIGN_OR_RETURN(
        Value conv, model.flatVectors(block + "ssm_conv1d_" + part + ".weight",
                                      columns, net.taps));
    parts.push_back(y);
    convs.push_back(conv);
  }
  MOE_ASSIGN_OR_RETURN(Value alpha,
                       projectTwice(model, block + "ssm_f", x, columns));
  MOE_ASSIGN_OR_RETURN(Value beta,
                       model.linear(x, block + "ssm_beta", net.heads));
  MOE_ASSIGN_OR_RETURN(Value a, model.flatVector(block + "ssm_a", net.heads));
  MOE_ASSIGN_OR_RETURN(Value dt, model.vector(block + "ssm_dt.bias", columns));
  Value out = model.create<moe::DeltaNetOp>(
      block + "delta_net", model.rows(columns), parts, beta, alpha, convs,
      /*bias=*/Value(), a, dt, /*skip=*/Value(), uint64_t(layer),
      uint64_t(net.heads), uint64_t(net.heads), uint64_t(net.size),
      uint64_t(net.size), llvm::APFloat(kKimiEps), llvm::APFloat(net.floor),
      /*tiled=*/false, /*sums=*/false);
  MOE_ASSIGN_OR_RETURN(
      out, model.rmsNorm(out, block + "ssm_norm", net.eps, net.heads));
  const std::string gates = block + "ssm_g";
  MOE_ASSIGN_OR_RETURN(
      Value gate, model.has(gates) ? model.linear(x, gates, columns)
                                   : projectTwice(model, gates, x, columns));
  out = model.create<moe::GateMulOp>(block + "ssm_gated", out.getType(), out,
                                     gate, moe::Gate::Sigmoid);
  return model.linear(out, block + "attn_output", columnsOf(x));
}

moert::Status buildKimiTransformer(ModelBuilder &model, bool rotates,
                                   const RoutedExperts &defaults) {
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  MOE_ASSIGN_OR_RETURN(LatentAttention attention,
                       readLatentAttention(model, kKimiEps, rotates));
  MOE_ASSIGN_OR_RETURN(KimiDelta net, readKimiDelta(model, decoder.eps));
  MOE_ASSIGN_OR_RETURN(std::vector<FeedForward> ffn,
                       readFeedForward(model, decoder, defaults));
  MOE_RETURN_IF_ERROR(
      readLimits(model.params(), ffn, /*clampsActivated=*/true));
  auto mix = [&](int64_t layer, const std::string &block,
                 Value x) -> StatusOr<Value> {
    MOE_ASSIGN_OR_RETURN(bool attends, hasAttention(model, layer));
    if (!attends)
      return buildKimiDelta(model, net, layer, block, x);
    return buildLatentAttention(model, attention, layer, block, x);
  };
  auto feedForward = [&](int64_t layer, const std::string &block, Value x,
                         Value /*begun*/) {
    return buildFeedForward(model, ffn[size_t(layer)], block, x);
  };
  return buildDecoder(model, decoder, {mix, feedForward});
}

} // namespace moec
