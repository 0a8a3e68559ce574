#include "models/Decoder.h"

#include "models/Limits.h"
#include "runtime/base/Text.h"

#include <fmt/format.h>

using mlir::Value;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
/// Returns the size of the vocabulary, from the key or else from the
/// tokenizer's list.
StatusOr<int64_t> readVocab(const ModelBuilder &model) {
  if (model.params().has("vocab_size"))
    return model.params().integer("vocab_size", 1, kMostTokens);
  MOE_ASSIGN_OR_RETURN(
      const GgufArray *tokens,
      model.file().getArray("tokenizer.ggml.tokens", GgufType::String));
  if (!tokens || tokens->count == 0 || tokens->count > uint64_t(kMostTokens))
    return Status(
        StatusCode::InvalidFile,
        fmt::format("{}: neither the key {} nor a tokenizer.ggml.tokens of 1 "
                    "to {} entries says how many tokens there are",
                    model.file().paths().front(),
                    moert::quoted(fmt::format("{}.vocab_size",
                                              model.file().architecture())),
                    kMostTokens));
  return int64_t(tokens->count);
}
} // namespace

/// Returns ModelFacts::pooling. The numbers are those of GGUF's pooling_type.
static StatusOr<std::string> readPooling(const HyperParams &params) {
  MOE_ASSIGN_OR_RETURN(int64_t type, params.integer("pooling_type", 0, 4, 0));
  constexpr const char *names[] = {"", "mean", "first", "last", "rank"};
  return std::string(names[type]);
}

StatusOr<Decoder> readDecoder(ModelBuilder &model) {
  const HyperParams &params = model.params();
  Decoder decoder;
  MOE_ASSIGN_OR_RETURN(decoder.blocks,
                       params.integer("block_count", 1, kMostLayers));
  MOE_ASSIGN_OR_RETURN(
      int64_t skipped,
      params.integer("nextn_predict_layers", 0, decoder.blocks - 1, 0));
  decoder.layers = decoder.blocks - skipped;
  for (int64_t block = decoder.layers; block < decoder.blocks; ++block) {
    model.skipTensors(fmt::format("blk.{}.", block));
    model.note(fmt::format("blk.{} predicts further tokens ahead and is "
                           "skipped",
                           block));
  }
  MOE_ASSIGN_OR_RETURN(decoder.hidden,
                       params.integer("embedding_length", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(decoder.vocab, readVocab(model));
  MOE_ASSIGN_OR_RETURN(decoder.eps,
                       params.positive("attention.layer_norm_rms_epsilon"));
  ModelFacts &facts = model.facts();
  facts.hidden = decoder.hidden;
  facts.vocab = decoder.vocab;
  facts.layers = decoder.layers;
  MOE_ASSIGN_OR_RETURN(facts.contextLength,
                       params.integer("context_length", 1, INT32_MAX));
  MOE_ASSIGN_OR_RETURN(facts.pooling, readPooling(params));
  return decoder;
}

StatusOr<Value> beginForward(ModelBuilder &model, const Decoder &decoder) {
  mlir::Type hidden = model.rows(decoder.hidden);
  Value ids = model.begin("forward", model.tokenIds(), hidden);
  MOE_ASSIGN_OR_RETURN(
      Value table, model.weight("token_embd", {decoder.vocab, decoder.hidden}));
  Value x = model.create<moe::EmbeddingOp>("token_embd", hidden, ids, table);
  return decoder.embeddingScale == 1
             ? x
             : model.scale(x, "token_embd_scale", decoder.embeddingScale);
}

Status endForward(ModelBuilder &model, const Decoder &decoder, Value x) {
  model.end(x);
  mlir::Type logits = model.rows(decoder.vocab);
  x = model.begin("logits", x.getType(), logits);
  MOE_ASSIGN_OR_RETURN(x, model.rmsNorm(x, "output_norm", decoder.eps));
  bool tied = !model.has("output");
  if (tied)
    model.note("output.weight is absent: token_embd.weight serves as both");
  MOE_ASSIGN_OR_RETURN(Value head,
                       model.weight(tied ? "token_embd" : "output",
                                    {decoder.vocab, decoder.hidden}));
  x = model.create<moe::LmHeadOp>("output", logits, x, head);
  MOE_ASSIGN_OR_RETURN(x, model.scaled(x, "output", "output", /*alone=*/true));
  model.end(decoder.softcap > 0
                ? model.scale(x, "output_softcap", 1, decoder.softcap)
                : x);
  return Status::ok();
}

StatusOr<Value> addNormed(ModelBuilder &model, const Decoder &decoder,
                          const std::string &block, Value x, Value y,
                          const char *norm, const char *add) {
  MOE_ASSIGN_OR_RETURN(y, model.rmsNorm(y, block + norm, decoder.eps));
  return model.create<moe::AddOp>(block + add, x, y).getResult();
}

Status buildDecoder(ModelBuilder &model, const Decoder &decoder,
                    const DecoderParts &parts) {
  MOE_ASSIGN_OR_RETURN(Value x, beginForward(model, decoder));
  auto add = [&](const std::string &block, Value y, const char *norm,
                 const char *label) -> StatusOr<Value> {
    if (decoder.normsResults)
      return addNormed(model, decoder, block, x, y, norm, label);
    return model.create<moe::AddOp>(block + label, x, y).getResult();
  };
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    const std::string &block = model.beginLayer(layer);
    MOE_ASSIGN_OR_RETURN(Value normed,
                         model.rmsNorm(x, block + "attn_norm", decoder.eps));
    MOE_ASSIGN_OR_RETURN(Value mixed, parts.attention(layer, block, normed));
    MOE_ASSIGN_OR_RETURN(x,
                         add(block, mixed, "post_attention_norm", "attn_add"));
    bool other = !decoder.normsResults &&
                 model.has(block + "post_attention_norm") &&
                 !model.has(block + "ffn_norm");
    MOE_ASSIGN_OR_RETURN(
        normed,
        model.rmsNorm(x, block + (other ? "post_attention_norm" : "ffn_norm"),
                      decoder.eps));
    MOE_ASSIGN_OR_RETURN(mixed, parts.feedForward(layer, block, normed));
    MOE_ASSIGN_OR_RETURN(x, add(block, mixed, "post_ffw_norm", "ffn_add"));
  }
  model.endLayers();
  return endForward(model, decoder, x);
}

} // namespace moec
