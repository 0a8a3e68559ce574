//===- deepseek2.cpp - DeepSeek-V2, V3, R1, Kimi-K2, GLM-4.7-Flash --------===//
//
// Multi-head latent attention and routed experts: arXiv 2405.04434 and
// 2412.19437. Files come in two layouts. Old: one attn_kv_b, key_length is a
// head's. New: attn_k_b (transposed) and attn_v_b, a head's lengths are in the
// keys that end in _mla. Tensors tell which, and whether queries have a
// low-rank factor.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"

#include <cmath>
#include <fmt/format.h>

using mlir::Value;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
// Limits keep products of two sizes far from overflow; real models stay two
// orders of magnitude below.
constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostHeads = 1 << 14;
constexpr int64_t kMostSize = 1 << 20;
constexpr int64_t kMostTokens = 1 << 24;

struct Attention {
  int64_t heads, nope, value, latent;
  moe::RopeAttr rope;
  double scale; ///< Of the scores.
};

struct Router {
  int64_t experts = 0, used = 0, groups = 1, groupsUsed = 1;
  int64_t inner = 0;  ///< Rows of a routed expert's gate and up.
  int64_t shared = 0; ///< Shared experts, stored as one wide FFN.
  moe::Scoring scoring = moe::Scoring::Softmax;
  bool normalize = false;
  double scale = 1;
};

struct Config {
  int64_t hidden, vocab, layers, denseLayers, denseInner;
  double eps;
  Attention attention;
  Router router;
};

//===----------------------------------------------------------------------===//
// Hyper-parameters
//===----------------------------------------------------------------------===//

/// Entries of the vocabulary: the key, else the tokenizer's list.
StatusOr<int64_t> readVocab(const ModelBuilder &model) {
  if (model.params().has("vocab_size"))
    return model.params().integer("vocab_size", 1, kMostTokens);
  MOE_ASSIGN_OR_RETURN(
      const GgufArray *tokens,
      model.file().getArray("tokenizer.ggml.tokens", GgufType::String));
  if (!tokens || tokens->count == 0 || tokens->count > uint64_t(kMostTokens))
    return Status(
        StatusCode::InvalidFile,
        fmt::format("{}: neither the key \"deepseek2.vocab_size\" nor "
                    "a tokenizer.ggml.tokens of 1 to {} entries says "
                    "how many tokens there are",
                    model.file().paths().front(), kMostTokens));
  return int64_t(tokens->count);
}

/// YaRN's optional knobs that would change the result and are not implemented.
Status refuseYarnVariants(const HyperParams &params) {
  for (const char *name :
       {"rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"}) {
    MOE_ASSIGN_OR_RETURN(double value, params.positive(name, 1.0));
    if (value != 1)
      return params.error(StatusCode::Unsupported, name,
                          fmt::format("is {}; only 1 is supported", value));
  }
  return Status::ok();
}

/// Frequencies, and the factor on the attention scores that comes with YaRN:
/// mscale^2, where mscale = 1 + yarn_log_multiplier * ln(factor). The generic
/// magnitude of YaRN on q and k would apply it a second time.
Status readRope(const HyperParams &params, mlir::MLIRContext *context,
                moe::RopeAttr &rope, double &scoreFactor) {
  MOE_ASSIGN_OR_RETURN(int64_t dim,
                       params.integer("rope.dimension_count", 2, kMostSize));
  if (dim % 2 != 0)
    return params.error(StatusCode::InvalidFile, "rope.dimension_count",
                        fmt::format("is {}, expected an even number", dim));
  MOE_ASSIGN_OR_RETURN(double base, params.positive("rope.freq_base", 1e4));
  if (base <= 1)
    return params.error(StatusCode::InvalidFile, "rope.freq_base",
                        fmt::format("is {}, expected more than 1", base));
  MOE_ASSIGN_OR_RETURN(std::string type,
                       params.text("rope.scaling.type", "none"));
  double factor = 1, fast = 32, slow = 1;
  int64_t original = 0;
  scoreFactor = 1;
  if (type == "yarn") {
    MOE_ASSIGN_OR_RETURN(factor, params.positive("rope.scaling.factor"));
    MOE_ASSIGN_OR_RETURN(
        original,
        params.integer("rope.scaling.original_context_length", 1, INT32_MAX));
    MOE_ASSIGN_OR_RETURN(fast,
                         params.positive("rope.scaling.yarn_beta_fast", fast));
    MOE_ASSIGN_OR_RETURN(slow,
                         params.positive("rope.scaling.yarn_beta_slow", slow));
    MOE_RETURN_IF_ERROR(refuseYarnVariants(params));
    MOE_ASSIGN_OR_RETURN(
        double multiplier,
        params.positive("rope.scaling.yarn_log_multiplier", 0.0, true));
    scoreFactor = std::pow(1 + multiplier * std::log(factor), 2);
  } else if (type == "linear") {
    MOE_ASSIGN_OR_RETURN(factor, params.positive("rope.scaling.factor"));
  } else if (type != "none") {
    return params.error(
        StatusCode::Unsupported, "rope.scaling.type",
        fmt::format("is \"{}\"; supported: none, linear, yarn", type));
  }
  rope = moe::RopeAttr::get(context, dim, base, factor, original, fast, slow,
                            /*neox=*/false);
  return Status::ok();
}

StatusOr<Attention> readAttention(const HyperParams &params,
                                  mlir::MLIRContext *context) {
  Attention attention;
  double scoreFactor = 1;
  MOE_RETURN_IF_ERROR(readRope(params, context, attention.rope, scoreFactor));
  MOE_ASSIGN_OR_RETURN(attention.heads,
                       params.integer("attention.head_count", 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(attention.latent,
                       params.integer("attention.kv_lora_rank", 1, kMostSize));
  // With both kinds of keys, those without _mla describe the latent.
  bool split = params.has("attention.key_length_mla");
  int64_t rope = attention.rope.getDim();
  MOE_ASSIGN_OR_RETURN(int64_t key,
                       params.integer(split ? "attention.key_length_mla"
                                            : "attention.key_length",
                                      rope + 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(attention.value,
                       params.integer(split ? "attention.value_length_mla"
                                            : "attention.value_length",
                                      1, kMostSize));
  attention.nope = key - rope;
  attention.scale = scoreFactor / std::sqrt(double(key));
  return attention;
}

/// Scoring by number. Without one it is softmax, except for GLM-4.7-Flash,
/// whose files leave it out: sigmoid.
StatusOr<moe::Scoring> readScoring(const HyperParams &params, int64_t blocks,
                                   int64_t vocab) {
  MOE_ASSIGN_OR_RETURN(int64_t number,
                       params.integer("expert_gating_func", 0, INT32_MAX, 0));
  if (number == 0)
    return (blocks == 47 || blocks == 48) && vocab == 154880
               ? moe::Scoring::Sigmoid
               : moe::Scoring::Softmax;
  if (std::optional<moe::Scoring> scoring =
          moe::symbolizeScoring(uint32_t(number)))
    return *scoring;
  return params.error(
      StatusCode::Unsupported, "expert_gating_func",
      fmt::format("is {}; supported: 1 (softmax), 2 (sigmoid), 3 (softmax over "
                  "the selected)",
                  number));
}

StatusOr<Router> readRouter(const HyperParams &params, int64_t blocks,
                            int64_t vocab) {
  Router router;
  MOE_ASSIGN_OR_RETURN(router.experts,
                       params.integer("expert_count", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(router.used,
                       params.integer("expert_used_count", 1, router.experts));
  MOE_ASSIGN_OR_RETURN(
      router.inner, params.integer("expert_feed_forward_length", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(
      router.shared,
      params.integer("expert_shared_count", 0, kMostSize / router.inner, 0));
  MOE_ASSIGN_OR_RETURN(router.scoring, readScoring(params, blocks, vocab));
  MOE_ASSIGN_OR_RETURN(router.normalize,
                       params.flag("expert_weights_norm", false));
  MOE_ASSIGN_OR_RETURN(router.scale,
                       params.positive("expert_weights_scale", 1.0, true));
  // Writers that know no scale store 0.
  if (router.scale == 0)
    router.scale = 1;
  // 0 groups and 1 group are the same: no groups.
  MOE_ASSIGN_OR_RETURN(int64_t groups, params.integer("expert_group_count", 0,
                                                      router.experts, 0));
  if (groups <= 1)
    return router;
  router.groups = groups;
  MOE_ASSIGN_OR_RETURN(router.groupsUsed,
                       params.integer("expert_group_used_count", 1, groups));
  if (router.experts % groups != 0)
    return params.error(StatusCode::InvalidFile, "expert_group_count",
                        fmt::format("is {}, expected a divisor of the {} "
                                    "experts",
                                    groups, router.experts));
  return router;
}

StatusOr<Config> readConfig(ModelBuilder &model) {
  const HyperParams &params = model.params();
  Config config;
  MOE_ASSIGN_OR_RETURN(int64_t blocks,
                       params.integer("block_count", 1, kMostLayers));
  MOE_ASSIGN_OR_RETURN(int64_t skipped, params.integer("nextn_predict_layers",
                                                       0, blocks - 1, 0));
  config.layers = blocks - skipped;
  for (int64_t block = config.layers; block < blocks; ++block) {
    model.skipTensors(fmt::format("blk.{}.", block));
    model.note(fmt::format("blk.{} predicts further tokens ahead and is "
                           "skipped",
                           block));
  }
  MOE_ASSIGN_OR_RETURN(config.hidden,
                       params.integer("embedding_length", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(config.vocab, readVocab(model));
  MOE_ASSIGN_OR_RETURN(config.eps,
                       params.positive("attention.layer_norm_rms_epsilon"));
  MOE_ASSIGN_OR_RETURN(
      config.denseLayers,
      params.integer("leading_dense_block_count", 0, blocks, 0));
  config.denseLayers = std::min(config.denseLayers, config.layers);
  config.denseInner = 0;
  if (config.denseLayers > 0) {
    MOE_ASSIGN_OR_RETURN(config.denseInner,
                         params.integer("feed_forward_length", 1, kMostSize));
  }
  MOE_ASSIGN_OR_RETURN(config.attention,
                       readAttention(params, model.tokenIds().getContext()));
  if (config.denseLayers < config.layers) {
    MOE_ASSIGN_OR_RETURN(config.router,
                         readRouter(params, blocks, config.vocab));
  }

  ModelFacts &facts = model.facts();
  facts.hidden = config.hidden;
  facts.vocab = config.vocab;
  facts.layers = config.layers;
  MOE_ASSIGN_OR_RETURN(facts.contextLength,
                       params.integer("context_length", 1, INT32_MAX));
  facts.heads = config.attention.heads;
  facts.experts = config.router.experts;
  facts.expertsUsed = config.router.used;
  facts.latent = config.attention.latent;
  facts.rope = config.attention.rope.getDim();
  return config;
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

/// Queries [T, heads * (nope + rope)], rotated.
StatusOr<Value> buildQuery(ModelBuilder &model, const Config &config,
                           const std::string &block, Value x) {
  const Attention &a = config.attention;
  int64_t outputs = a.heads * (a.nope + a.rope.getDim());
  std::string last = block + "attn_q";
  if (model.has(block + "attn_q_a")) {
    const GgufTensor &down =
        *model.file().findTensor(block + "attn_q_a.weight");
    MOE_ASSIGN_OR_RETURN(int64_t rank, model.params().integer(
                                           "attention.q_lora_rank", 1,
                                           kMostSize, int64_t(down.shape[1])));
    MOE_ASSIGN_OR_RETURN(x, model.linear(x, block + "attn_q_a", rank));
    MOE_ASSIGN_OR_RETURN(x,
                         model.rmsNorm(x, block + "attn_q_a_norm", config.eps));
    last = block + "attn_q_b";
  }
  MOE_ASSIGN_OR_RETURN(Value q, model.linear(x, last, outputs));
  return model
      .create<moe::RopeOp>(block + "attn_q_rope", q.getType(), q,
                           uint64_t(a.heads), uint64_t(a.nope), a.rope)
      .getResult();
}

/// W_UK and W_UV of all heads.
struct Decompression {
  Value key, value;
  bool transposed; ///< key is [heads, latent, nope].
};

StatusOr<Decompression> loadDecompression(ModelBuilder &model,
                                          const Attention &a,
                                          const std::string &block) {
  Decompression result;
  // Some files carry both forms of the same weights; this one is exact for the
  // definition and its parts are views.
  result.transposed = !model.has(block + "attn_kv_b");
  if (result.transposed) {
    MOE_ASSIGN_OR_RETURN(result.key, model.weight(block + "attn_k_b",
                                                  {a.heads, a.latent, a.nope}));
    MOE_ASSIGN_OR_RETURN(
        result.value,
        model.weight(block + "attn_v_b", {a.heads, a.value, a.latent}));
    return result;
  }
  MOE_ASSIGN_OR_RETURN(Value both,
                       model.weight(block + "attn_kv_b",
                                    {a.heads * (a.nope + a.value), a.latent}));
  mlir::Type element =
      mlir::cast<mlir::RankedTensorType>(both.getType()).getElementType();
  auto part = [&](int64_t rows) {
    return mlir::RankedTensorType::get({a.heads, rows, a.latent}, element);
  };
  auto split = model.create<moe::SplitKvBOp>(
      block + "attn_kv_b", part(a.nope), part(a.value), both, uint64_t(a.heads),
      uint64_t(a.nope));
  result.key = split.getKey();
  result.value = split.getValue();
  return result;
}

StatusOr<Value> buildAttention(ModelBuilder &model, const Config &config,
                               int64_t layer, const std::string &block,
                               Value x) {
  const Attention &a = config.attention;
  int64_t rope = a.rope.getDim(), width = a.latent + rope;
  MOE_ASSIGN_OR_RETURN(Value q, buildQuery(model, config, block, x));
  MOE_ASSIGN_OR_RETURN(Value down,
                       model.linear(x, block + "attn_kv_a_mqa", width));
  MOE_ASSIGN_OR_RETURN(Value norm,
                       model.vector(block + "attn_kv_a_norm.weight", a.latent));
  Value kv = model.create<moe::MlaLatentOp>(
      block + "attn_latent", moe::KvType::get(x.getContext(), width), down,
      norm, uint64_t(layer), llvm::APFloat(config.eps), a.rope);
  MOE_ASSIGN_OR_RETURN(Decompression up, loadDecompression(model, a, block));
  Value mixed = model.create<moe::MlaAttentionOp>(
      block + "attention", model.rows(a.heads * a.value), q, kv, up.key,
      up.value, uint64_t(a.heads), uint64_t(a.nope), uint64_t(rope),
      uint64_t(a.latent), uint64_t(a.value), llvm::APFloat(a.scale),
      up.transposed);
  return model.linear(mixed, block + "attn_output", config.hidden);
}

StatusOr<Value> buildExperts(ModelBuilder &model, const Config &config,
                             const std::string &block, Value x) {
  const Router &r = config.router;
  if (model.has(block + "ffn_gate_up_exps"))
    return Status(StatusCode::Unsupported,
                  fmt::format("{}: tensor \"{}ffn_gate_up_exps.weight\" fuses "
                              "gate and up; convert the model with separate "
                              "ffn_gate_exps and ffn_up_exps",
                              model.file().paths().front(), block));
  MOE_ASSIGN_OR_RETURN(Value gateIn, model.weight(block + "ffn_gate_inp",
                                                  {r.experts, config.hidden}));
  Value bias;
  std::string biasName = block + "exp_probs_b.bias";
  if (model.file().findTensor(biasName)) {
    MOE_ASSIGN_OR_RETURN(bias, model.vector(biasName, r.experts));
  }
  auto router = model.create<moe::RouterOp>(
      block + "router", model.idRows(r.used), model.rows(r.used), x, gateIn,
      bias, uint64_t(r.used), r.scoring, uint64_t(r.groups),
      uint64_t(r.groupsUsed), r.normalize, llvm::APFloat(r.scale));
  MOE_ASSIGN_OR_RETURN(Value gate,
                       model.weight(block + "ffn_gate_exps",
                                    {r.experts, r.inner, config.hidden}));
  MOE_ASSIGN_OR_RETURN(
      Value up,
      model.weight(block + "ffn_up_exps", {r.experts, r.inner, config.hidden}));
  MOE_ASSIGN_OR_RETURN(Value down,
                       model.weight(block + "ffn_down_exps",
                                    {r.experts, config.hidden, r.inner}));
  // Files that do not count their shared experts may still have them.
  const GgufTensor *sharedGate =
      model.file().findTensor(block + "ffn_gate_shexp.weight");
  Value shared;
  // Before the routed ones, so that those add to its result: they end last.
  if (r.shared != 0 || sharedGate) {
    int64_t inner =
        r.shared > 0 ? r.shared * r.inner : int64_t(sharedGate->shape[1]);
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

StatusOr<Value> buildLayer(ModelBuilder &model, const Config &config,
                           int64_t layer, Value x) {
  std::string block = fmt::format("blk.{}.", layer);
  MOE_ASSIGN_OR_RETURN(Value normed,
                       model.rmsNorm(x, block + "attn_norm", config.eps));
  MOE_ASSIGN_OR_RETURN(Value attended,
                       buildAttention(model, config, layer, block, normed));
  x = model.create<moe::AddOp>(block + "attn_add", x, attended);
  MOE_ASSIGN_OR_RETURN(normed,
                       model.rmsNorm(x, block + "ffn_norm", config.eps));
  StatusOr<Value> mixed =
      layer < config.denseLayers
          ? model.ffn(normed, block, "", config.denseInner, block + "ffn")
          : buildExperts(model, config, block, normed);
  MOE_ASSIGN_OR_RETURN(Value out, std::move(mixed));
  return model.create<moe::AddOp>(block + "ffn_add", x, out).getResult();
}
} // namespace

Status buildDeepseek2(ModelBuilder &model) {
  MOE_ASSIGN_OR_RETURN(Config config, readConfig(model));
  mlir::Type hidden = model.rows(config.hidden);

  Value ids = model.begin("forward", model.tokenIds(), hidden);
  MOE_ASSIGN_OR_RETURN(
      Value table, model.weight("token_embd", {config.vocab, config.hidden}));
  Value x = model.create<moe::EmbeddingOp>("token_embd", hidden, ids, table);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    MOE_ASSIGN_OR_RETURN(x, buildLayer(model, config, layer, x));
  }
  model.end(x);

  x = model.begin("logits", hidden, model.rows(config.vocab));
  MOE_ASSIGN_OR_RETURN(x, model.rmsNorm(x, "output_norm", config.eps));
  bool tied = !model.has("output");
  if (tied)
    model.note("output.weight is absent: token_embd.weight serves as both");
  MOE_ASSIGN_OR_RETURN(Value head, model.weight(tied ? "token_embd" : "output",
                                                {config.vocab, config.hidden}));
  model.end(
      model.create<moe::LmHeadOp>("output", model.rows(config.vocab), x, head));
  return Status::ok();
}

} // namespace moec
