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

/// Reads how many of the blocks are for multi-token prediction, and which of
/// these are built.
static Status readDrafts(ModelBuilder &model, bool mayDraft, Decoder &decoder) {
  const HyperParams &params = model.params();
  constexpr const char *kCount = "nextn_predict_layers";
  MOE_ASSIGN_OR_RETURN(int64_t count,
                       params.integer(kCount, 0, decoder.blocks - 1, 0));
  decoder.layers = decoder.blocks - count;
  // Some files have the key and lack the tensors.
  const std::string join = fmt::format("blk.{}.nextn.eh_proj", decoder.layers);
  if (model.mtp()) {
    if (count == 0 || !model.has(join))
      return params.error(StatusCode::Unsupported, kCount,
                          fmt::format("names no layer for --mtp: the file "
                                      "has no {}.weight",
                                      join));
    if (!mayDraft)
      return params.error(StatusCode::Unsupported, kCount,
                          "asks for layers of a kind that --mtp does not "
                          "know");
    decoder.drafts = 1;
  }
  for (int64_t block = decoder.built(); block < decoder.blocks; ++block) {
    model.skipTensors(fmt::format("blk.{}.", block));
    model.note(
        fmt::format("blk.{} predicts further tokens ahead and is "
                    "skipped{}",
                    block,
                    mayDraft && block == decoder.layers && model.has(join)
                        ? "; --mtp keeps it"
                        : ""));
  }
  return Status::ok();
}

StatusOr<Decoder> readDecoder(ModelBuilder &model, DecoderTraits traits) {
  const HyperParams &params = model.params();
  const bool centres = traits.centres;
  Decoder decoder;
  MOE_ASSIGN_OR_RETURN(decoder.blocks,
                       params.integer("block_count", 1, kMostLayers));
  MOE_RETURN_IF_ERROR(readDrafts(model, traits.drafts, decoder));
  // These keys are of models for images, and of models that embed texts.
  params.skip({"rope.dimension_sections", "n_deepstack_layers",
               "embedding_length_out", "classifier.output_labels"});
  MOE_ASSIGN_OR_RETURN(decoder.hidden,
                       params.integer("embedding_length", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(decoder.vocab, readVocab(model));
  decoder.centres = centres;
  MOE_ASSIGN_OR_RETURN(
      decoder.eps,
      params.positive(centres ? "attention.layer_norm_epsilon"
                              : "attention.layer_norm_rms_epsilon"));
  decoder.resultsEps = decoder.eps;
  ModelFacts &facts = model.facts();
  facts.hidden = decoder.hidden;
  facts.vocab = decoder.vocab;
  facts.layers = decoder.layers;
  facts.mtpLayers = decoder.drafts;
  MOE_ASSIGN_OR_RETURN(facts.contextLength,
                       params.integer("context_length", 1, INT32_MAX));
  MOE_ASSIGN_OR_RETURN(facts.pooling, readPooling(params));
  return decoder;
}

/// Returns what the first layer reads for tokens `ids`, whose rows are in
/// `name`.
static StatusOr<Value> embed(ModelBuilder &model, const Decoder &decoder,
                             const std::string &name, Value ids) {
  mlir::Type hidden = model.rows(decoder.hidden);
  MOE_ASSIGN_OR_RETURN(Value table,
                       model.weight(name, {decoder.vocab, decoder.hidden}));
  Value x = model.create<moe::EmbeddingOp>(name, hidden, ids, table);
  if (decoder.embedsPositions) {
    const int64_t most = model.facts().contextLength;
    MOE_ASSIGN_OR_RETURN(Value positions,
                         model.weight("position_embd", {most, decoder.hidden}));
    positions = model.create<moe::EmbedPositionsOp>("position_embd", hidden,
                                                    ids, positions);
    x = model.create<moe::AddOp>("position_embd_add", x, positions);
  }
  if (decoder.normsEmbedding)
    x = model.rmsNormOnly(x, "token_embd_norm", decoder.eps);
  return decoder.embeddingScale == 1
             ? x
             : model.scale(x, "token_embd_scale", decoder.embeddingScale);
}

StatusOr<Value> beginForward(ModelBuilder &model, const Decoder &decoder) {
  Value ids =
      model.begin("forward", model.tokenIds(), model.rows(decoder.hidden))[0];
  return embed(model, decoder, "token_embd", ids);
}

/// Returns the norm of `x` with the weight `name`.
static StatusOr<Value> normOf(ModelBuilder &model, const Decoder &decoder,
                              Value x, const std::string &name, double eps) {
  return decoder.centres ? model.layerNorm(x, name, eps)
                         : model.rmsNorm(x, name, eps);
}

/// Returns the name of the norm before the head. Files of LFM2 call it
/// token_embd_norm.
static std::string nameOfHeadNorm(const ModelBuilder &model) {
  const char *other = "token_embd_norm";
  return model.has("output_norm") || !model.has(other) ? "output_norm" : other;
}

/// Returns the weight of the head.
static std::string nameOfHead(const ModelBuilder &model) {
  return model.has("output") ? "output" : "token_embd";
}

/// Builds the logits of `x` with the weight `name`, and ends the function.
static Status endWithLogits(ModelBuilder &model, const Decoder &decoder,
                            const std::string &name, Value x) {
  mlir::Type logits = model.rows(decoder.vocab);
  MOE_ASSIGN_OR_RETURN(Value head,
                       model.weight(name, {decoder.vocab, decoder.hidden}));
  MOE_ASSIGN_OR_RETURN(Value bias,
                       model.vectorIfAny("output.bias", decoder.vocab));
  if (bias)
    x = model.linear(x, "output", head, bias);
  else
    x = model.create<moe::LmHeadOp>("output", logits, x, head);
  MOE_ASSIGN_OR_RETURN(x, model.scaled(x, "output", "output", /*alone=*/!bias));
  if (decoder.logitScale != 1 || decoder.softcap > 0)
    x = model.scale(x, decoder.softcap > 0 ? "output_softcap" : "output_factor",
                    decoder.logitScale, decoder.softcap);
  model.end(x);
  return Status::ok();
}

/// The head of a model that ranks or classifies texts.
static constexpr const char *kClassifier = "cls.output";

/// Reads the names of the classifier's outputs, which are as many as its weight
/// has rows: the key classifier.output_labels, or else their numbers.
static Status readLabels(ModelBuilder &model) {
  constexpr const char *key = "classifier.output_labels";
  const GgufTensor *weight = model.find(fmt::format("{}.weight", kClassifier));
  const uint64_t outputs = std::min(
      weight && weight->shape.size() > 1 ? weight->shape[1] : 1, kMostLabels);
  MOE_ASSIGN_OR_RETURN(std::vector<std::string> labels,
                       model.params().texts(key));
  if (labels.empty())
    for (uint64_t i = 0; i < outputs; ++i)
      labels.push_back(std::to_string(i));
  if (labels.size() != outputs)
    return model.params().error(
        StatusCode::InvalidFile, key,
        fmt::format("has {} labels, but {}.weight has {} rows", labels.size(),
                    kClassifier, outputs));
  model.facts().labels = std::move(labels);
  return Status::ok();
}

/// Builds the outputs of the classifier for `x`, and ends the function.
static Status endWithOutputs(ModelBuilder &model, const Decoder &decoder,
                             Value x) {
  const auto outputs = int64_t(model.facts().labels.size());
  MOE_ASSIGN_OR_RETURN(Value weight,
                       model.weight(kClassifier, {outputs, decoder.hidden}));
  MOE_ASSIGN_OR_RETURN(
      Value bias,
      model.vectorIfAny(fmt::format("{}.bias", kClassifier), outputs));
  model.end(bias ? model.linear(x, kClassifier, weight, bias)
                 : model.create<moe::LmHeadOp>(kClassifier, model.rows(outputs),
                                               x, weight));
  return Status::ok();
}

Status endForward(ModelBuilder &model, const Decoder &decoder, Value x) {
  model.end(x);
  const bool classifies = model.has(kClassifier);
  if (classifies)
    MOE_RETURN_IF_ERROR(readLabels(model));
  x = model.begin("logits", x.getType(),
                  model.rows(classifies ? int64_t(model.facts().labels.size())
                                        : decoder.vocab))[0];
  if (decoder.normsHead) {
    MOE_ASSIGN_OR_RETURN(
        x, normOf(model, decoder, x, nameOfHeadNorm(model), decoder.eps));
  }
  if (classifies)
    return endWithOutputs(model, decoder, x);
  if (!model.has("output"))
    model.note("output.weight is absent: token_embd.weight serves as both");
  return endWithLogits(model, decoder, nameOfHead(model), x);
}

/// Returns x + y * residualScale.
static Value addScaled(ModelBuilder &model, const Decoder &decoder,
                       const std::string &block, Value x, Value y,
                       const std::string &add) {
  if (decoder.residualScale != 1)
    y = model.scale(y, block + add + "_scale", decoder.residualScale);
  return model.create<moe::AddOp>(block + add, x, y);
}

StatusOr<Value> addNormed(ModelBuilder &model, const Decoder &decoder,
                          const std::string &block, Value x, Value y,
                          const char *norm, const char *add) {
  MOE_ASSIGN_OR_RETURN(
      y, normOf(model, decoder, y, block + norm, decoder.resultsEps));
  return addScaled(model, decoder, block, x, y, add);
}

namespace {
/// Builds one block after another.
class Blocks {
public:
  Blocks(ModelBuilder &model, const Decoder &decoder, const DecoderParts &parts)
      : model(model), decoder(decoder), parts(parts) {}

  /// Returns the rows after the block of `layer`.
  StatusOr<Value> build(int64_t layer, Value x) {
    block = model.beginLayer(layer);
    const Value begun = x;
    MOE_ASSIGN_OR_RETURN(Value normed, normOfInput(x, "attn_norm"));
    Value read = normed;
    if (decoder.parallel && model.has(block + "attn_norm_2")) {
      MOE_ASSIGN_OR_RETURN(read, normOfInput(x, "attn_norm_2"));
    }
    MOE_ASSIGN_OR_RETURN(Value mixed, parts.attention(layer, block, read));
    MOE_ASSIGN_OR_RETURN(x, add(x, mixed, "post_attention_norm", "attn_add"));
    if (!decoder.parallel) {
      MOE_ASSIGN_OR_RETURN(normed, normOfInput(x, nameOfSecond()));
    }
    MOE_ASSIGN_OR_RETURN(mixed, parts.feedForward(layer, block, normed, begun));
    return add(x, mixed, "post_ffw_norm", "ffn_add");
  }

private:
  StatusOr<Value> normOfInput(Value x, const char *name) {
    if (decoder.norms == Norms::Results)
      return x;
    return normOf(model, decoder, x, block + name, decoder.eps);
  }

  /// Returns the name of the norm before feed-forward.
  const char *nameOfSecond() const {
    if (decoder.norms == Norms::Inputs && !model.has(block + "ffn_norm"))
      for (const char *other : {"post_attention_norm", "attn_output_norm"})
        if (model.has(block + other))
          return other;
    return "ffn_norm";
  }

  StatusOr<Value> add(Value x, Value y, const char *norm, const char *label) {
    if (decoder.norms != Norms::Inputs)
      return addNormed(model, decoder, block, x, y, norm, label);
    return addScaled(model, decoder, block, x, y, label);
  }

  ModelBuilder &model;
  const Decoder &decoder;
  const DecoderParts &parts;
  std::string block;
};
} // namespace

/// Builds @draft and @draft_logits with the layer behind those of @forward.
static Status buildDraft(ModelBuilder &model, const Decoder &decoder,
                         Blocks &blocks) {
  const mlir::Type hidden = model.rows(decoder.hidden);
  llvm::ArrayRef<mlir::BlockArgument> given =
      model.begin("draft", {model.tokenIds(), hidden}, hidden);
  const std::string name = model.beginLayer(decoder.layers) + "nextn.";
  auto ownOr = [&](const char *own, const std::string &shared) {
    return model.has(name + own) ? name + own : shared;
  };
  MOE_ASSIGN_OR_RETURN(
      Value token,
      embed(model, decoder, ownOr("embed_tokens", "token_embd"), given[0]));
  MOE_ASSIGN_OR_RETURN(
      token, normOf(model, decoder, token, name + "enorm", decoder.eps));
  MOE_ASSIGN_OR_RETURN(Value before, normOf(model, decoder, given[1],
                                            name + "hnorm", decoder.eps));
  Value x = model.create<moe::ConcatOp>(
      name + "join", model.rows(2 * decoder.hidden), token, before);
  MOE_ASSIGN_OR_RETURN(x, model.linear(x, name + "eh_proj", decoder.hidden));
  MOE_ASSIGN_OR_RETURN(x, blocks.build(decoder.layers, x));
  MOE_ASSIGN_OR_RETURN(
      x, normOf(model, decoder, x,
                ownOr("shared_head_norm", nameOfHeadNorm(model)), decoder.eps));
  model.end(x);
  const std::string head = ownOr("shared_head_head", nameOfHead(model));
  model.endLayers();
  x = model.begin("draft_logits", hidden, model.rows(decoder.vocab))[0];
  return endWithLogits(model, decoder, head, x);
}

Status buildDecoder(ModelBuilder &model, const Decoder &decoder,
                    const DecoderParts &parts) {
  MOE_ASSIGN_OR_RETURN(Value x, beginForward(model, decoder));
  Blocks blocks(model, decoder, parts);
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    MOE_ASSIGN_OR_RETURN(x, blocks.build(layer, x));
  }
  model.endLayers();
  MOE_RETURN_IF_ERROR(endForward(model, decoder, x));
  return decoder.drafts == 0 ? Status::ok()
                             : buildDraft(model, decoder, blocks);
}

} // namespace moec
