//===- kimi-k3.cpp - Kimi K3, text ----------------------------------------===//
//
// arXiv 2607.24653. Kimi Delta Attention with bounded decays, and latent
// attention without RoPE, both with gates. The residual stream begins anew
// every `attn_res.block_size` layers; attention over depth mixes it with what
// it was where it began anew. Routed experts have a width of their own. All
// FFNs have SiTU.
//
//===----------------------------------------------------------------------===//

#include "kernels/Abi.h"
#include "models/Builders.h"
#include "models/KimiDelta.h"
#include "models/Limits.h"

#include <fmt/format.h>

using mlir::Value;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
StatusOr<std::vector<FeedForward>> readFfns(ModelBuilder &model,
                                            const Decoder &decoder) {
  const HyperParams &params = model.params();
  RoutedExperts defaults;
  defaults.scoring = moe::Scoring::Sigmoid;
  defaults.ranksPairs = true;
  MOE_ASSIGN_OR_RETURN(defaults.limit, params.positive("activation.situ_beta"));
  MOE_ASSIGN_OR_RETURN(defaults.softLimit,
                       params.positive("activation.situ_linear_beta"));
  defaults.sharedLimit = defaults.limit;
  MOE_ASSIGN_OR_RETURN(defaults.latent,
                       params.integer("expert_latent_length", 0, kMostSize, 0));
  defaults.latentEps = decoder.eps;
  MOE_ASSIGN_OR_RETURN(std::vector<FeedForward> layers,
                       readFeedForward(model, decoder, defaults));
  for (FeedForward &ffn : layers) {
    ffn.limit = defaults.limit;
    ffn.softLimit = defaults.softLimit;
  }
  return layers;
}

/// The residual stream and what it was before.
struct Residuals {
  ModelBuilder &model;
  double eps;
  /// Number of layers after which the stack begins anew; 0: never.
  int64_t size;
  Value x, stack; ///< `stack` is null at first.

  /// Returns the rows that an attention or FFN with these weights reads.
  StatusOr<Value> mixed(const std::string &name) {
    if (!stack)
      return x;
    MOE_ASSIGN_OR_RETURN(Value weight,
                         model.vector(name + ".weight", columnsOf(x)));
    return Value(model.create<moe::ResidualMixOp>(name, x, stack, weight,
                                                  llvm::APFloat(eps)));
  }
  /// Adds the stream to the stack, so that it begins anew with the next part.
  void push(const std::string &block) {
    stack = stack ? Value(model.create<moe::ConcatOp>(
                        block + "attn_res_stack",
                        model.rows(columnsOf(stack) + columnsOf(x)), stack, x))
                  : x;
    x = {};
  }
  void add(const std::string &name, Value y) {
    x = x ? Value(model.create<moe::AddOp>(name, x, y)) : y;
  }
};
} // namespace

moert::Status buildKimiK3(ModelBuilder &model) {
  const HyperParams &params = model.params();
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  MOE_ASSIGN_OR_RETURN(LatentAttention attention,
                       readLatentAttention(model, kKimiEps, /*rotates=*/false));
  MOE_ASSIGN_OR_RETURN(KimiDelta net, readKimiDelta(model, decoder.eps));
  MOE_ASSIGN_OR_RETURN(std::vector<FeedForward> ffn, readFfns(model, decoder));
  constexpr const char *kSize = "attn_res.block_size";
  MOE_ASSIGN_OR_RETURN(int64_t size, params.integer(kSize, 0, kMostLayers));
  if (size > 0 && (decoder.layers - 1) / size >= moek::kMaxResiduals)
    return params.error(
        StatusCode::Unsupported, kSize,
        fmt::format("is {}, but {} layers need at least {}", size,
                    decoder.layers,
                    (decoder.layers - 1) / moek::kMaxResiduals + 1));
  // Before the first layer there is nothing to attend to.
  model.skipTensors("blk.0.attn_res_score.");

  MOE_ASSIGN_OR_RETURN(Value x, beginForward(model, decoder));
  Residuals residuals{model, decoder.eps, size, x, {}};
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    const std::string &block = model.beginLayer(layer);
    MOE_ASSIGN_OR_RETURN(Value y, residuals.mixed(block + "attn_res_score"));
    if (size > 0 && layer % size == 0)
      residuals.push(block);
    MOE_ASSIGN_OR_RETURN(y, model.rmsNorm(y, block + "attn_norm", decoder.eps));
    MOE_ASSIGN_OR_RETURN(bool attends, hasAttention(model, layer));
    MOE_ASSIGN_OR_RETURN(
        y, attends ? buildLatentAttention(model, attention, layer, block, y)
                   : buildKimiDelta(model, net, layer, block, y));
    residuals.add(block + "attn_add", y);
    MOE_ASSIGN_OR_RETURN(y, residuals.mixed(block + "ffn_res_score"));
    MOE_ASSIGN_OR_RETURN(y, model.rmsNorm(y, block + "ffn_norm", decoder.eps));
    MOE_ASSIGN_OR_RETURN(y,
                         buildFeedForward(model, ffn[size_t(layer)], block, y));
    residuals.add(block + "ffn_add", y);
  }
  model.endLayers();
  MOE_ASSIGN_OR_RETURN(x, residuals.mixed("output_res_score"));
  return endForward(model, decoder, x);
}

} // namespace moec
