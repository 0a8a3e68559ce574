//===- qwen4exp.cpp - Qwen 4 (experimental) -------------------------------===//
//
// Several residual streams: a part reads their mean, after a norm of each and
// gates of low rank, and its result is added to each stream with a factor of
// its own; there are no other norms. Delta nets, of which the gate behind the
// norm is a sigmoid, and attention to blocks that an indexer chooses. Before
// one layer, values of n-grams are gated into the streams.
//
//===----------------------------------------------------------------------===//

#include "kernels/Abi.h"
#include "models/BlockIndexer.h"
#include "models/Builders.h"
#include "models/DeltaNet.h"
#include "models/FeedForward.h"
#include "models/Limits.h"
#include "models/NgramTable.h"

#include <cmath>
#include <fmt/format.h>

using mlir::Value;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

namespace {
struct Streams {
  int64_t count = 0, rank = 0, hidden = 0;
  double eps = 0;
};

StatusOr<Streams> readStreams(const HyperParams &params,
                              const Decoder &decoder) {
  Streams streams;
  streams.hidden = decoder.hidden;
  streams.eps = decoder.eps;
  MOE_ASSIGN_OR_RETURN(
      streams.count, params.integer("hyper_connection.count", 2, kMaxStreams));
  MOE_ASSIGN_OR_RETURN(
      streams.rank, params.integer("hyper_connection.low_rank", 1, kMostSize));
  return streams;
}

/// What a part reads of the streams, and their normed rows [T, count * hidden].
struct Read {
  Value mixed, normed;
};

/// Builds the reading part of the tensors that begin with `name`: the mean of
/// normed * sigmoid(up(silu(down(normed) / count))).
StatusOr<Read> readFrom(ModelBuilder &model, const Streams &s,
                        const std::string &name, Value x) {
  const int64_t all = s.count * s.hidden;
  MOE_ASSIGN_OR_RETURN(Value weight, model.vector(name + "norm.weight", all));
  Value normed =
      model.create<moe::RmsNormOp>(name + "norm", x.getType(), x, weight,
                                   llvm::APFloat(s.eps), uint64_t(s.count));
  MOE_ASSIGN_OR_RETURN(Value low, model.linear(normed, name + "down", s.rank));
  low = model.scale(low, name + "down_scale", 1 / double(s.count));
  low = model.create<moe::ActivationMulOp>(name + "down_silu", low.getType(),
                                           low, Value(), moe::Activation::Silu);
  MOE_ASSIGN_OR_RETURN(Value gate, model.linear(low, name + "up", all));
  Value gated = model.create<moe::GateMulOp>(name + "gate", normed.getType(),
                                             normed, gate, moe::Gate::Sigmoid);
  Value mixed = model.create<moe::HyperCollapseOp>(
      name + "in", model.rows(s.hidden), gated, Value(), uint64_t(s.count));
  return Read{mixed, normed};
}

/// Returns the streams `x` plus 2 * sigmoid(inject(normed) / count) * y.
StatusOr<Value> addTo(ModelBuilder &model, const Streams &s,
                      const std::string &name, Value x, Value normed, Value y) {
  MOE_ASSIGN_OR_RETURN(Value factors,
                       model.linear(normed, name + "inject", s.count));
  factors = model.scale(factors, name + "inject_scale", 1 / double(s.count));
  y = model.scale(y, name + "twice", 2);
  Value copies = model.create<moe::HyperSpreadOp>(
      name + "out", x.getType(), y, Value(), Value(), uint64_t(s.count));
  copies = model.create<moe::GateMulOp>(name + "injected", x.getType(), copies,
                                        factors, moe::Gate::Sigmoid);
  return Value(model.create<moe::AddOp>(name + "add", x, copies));
}

/// The indexer scores means of keys: relu(q . k) summed over its heads. Tokens
/// behind the last whole block are always seen.
struct MeanIndexer {
  int64_t heads = 0, key = 0, blocks = 0, ratio = 0;
};

StatusOr<MeanIndexer> readMeanIndexer(ModelBuilder &model,
                                      const GroupedAttention &attention,
                                      int64_t layer) {
  const HyperParams &params = model.params();
  constexpr const char *kBudget = "attention.indexer.top_k";
  MeanIndexer config;
  MOE_ASSIGN_OR_RETURN(
      config.heads,
      params.integer("attention.indexer.head_count", 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(config.key,
                       params.integer("attention.indexer.key_length",
                                      attention.rope.getDim(), kMostSize));
  MOE_ASSIGN_OR_RETURN(config.ratio, params.ofLayer("attention.compress_ratios",
                                                    layer, 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(int64_t budget, params.integer(kBudget, 1, kMostSize));
  config.blocks = budget / config.ratio;
  if (config.blocks == 0)
    return params.error(StatusCode::InvalidFile, kBudget,
                        fmt::format("is {}, expected at least the {} tokens of "
                                    "a block",
                                    budget, config.ratio));
  return config;
}

StatusOr<BlockChoice> chooseByMeans(ModelBuilder &model, const MeanIndexer &c,
                                    const GroupedAttention &attention,
                                    int64_t layer, const std::string &block,
                                    Value x) {
  const std::string name = block + "indexer.";
  MOE_ASSIGN_OR_RETURN(Value q,
                       model.linear(x, name + "q_proj", c.heads * c.key));
  MOE_ASSIGN_OR_RETURN(
      q, model.rmsNorm(q, name + "q_norm", attention.eps, c.heads));
  q = model.create<moe::RopeOp>(name + "q_rope", q.getType(), q,
                                uint64_t(c.heads), uint64_t(0), attention.rope);
  MOE_ASSIGN_OR_RETURN(Value k, model.linear(x, name + "k_proj", c.key));
  k = model.create<moe::CompressOp>(name + "k_mean", k.getType(), k, Value(),
                                    Value(), uint64_t(layer), kIndexPart,
                                    uint64_t(c.ratio), /*overlap=*/false);
  MOE_ASSIGN_OR_RETURN(Value norm, model.vector(name + "k_norm.weight", c.key));
  Value keys = model.create<moe::EntryStoreOp>(
      name + "keys", moe::KvType::get(k.getContext(), c.key), k, norm,
      uint64_t(layer), kIndexPart, uint64_t(c.ratio),
      llvm::APFloat(attention.eps), attention.rope,
      uint64_t(c.key - attention.rope.getDim()));
  auto chosen = model.create<moe::ChooseEntriesOp>(
      name + "choice", model.idRows(c.blocks), q, Value(), keys,
      uint64_t(c.heads), uint64_t(c.key), uint64_t(c.blocks),
      llvm::APFloat(1 / std::sqrt(double(c.key))), uint64_t(c.ratio));
  return BlockChoice{chosen.getResult(), /*groups=*/1, c.ratio, /*local=*/0};
}

/// Values of n-grams that are added to the streams before a layer.
struct Ngrams {
  int64_t layer = -1; ///< Layer in front of which they are added; -1: no layer.
  int64_t taps = 0;
  NgramTable table;
};

/// Numbers of the layer's cache and state beside those of attention.
constexpr uint64_t kTokensPart = 3, kConvolutionPart = 1;
constexpr NgramKeys kNgramKeys{"ple.layer_multipliers", "ple.head_vocab_sizes",
                               "ple.head_offsets"};

StatusOr<Ngrams> readNgrams(const HyperParams &params, const Decoder &decoder) {
  constexpr const char *kLayers = "ple.layers", *kTaps = "ple.conv_kernel";
  Ngrams ngrams;
  if (!params.has(kLayers))
    return ngrams;
  // A file has the numbers of one table.
  MOE_ASSIGN_OR_RETURN(std::vector<int64_t> layers,
                       params.integers(kLayers, 1, 0));
  if (layers.front() >= decoder.layers)
    return params.error(StatusCode::InvalidFile, kLayers,
                        fmt::format("is {}, expected at most {}",
                                    layers.front(), decoder.layers - 1));
  ngrams.layer = layers.front();
  params.skip({"ple.image_token_id"});
  NgramTable &table = ngrams.table;
  MOE_ASSIGN_OR_RETURN(table.size,
                       params.integer("ple.ngram_size", 2, moek::kMaxNgram));
  MOE_ASSIGN_OR_RETURN(table.heads,
                       params.integer("ple.heads_per_ngram", 1, kMostHeads));
  MOE_ASSIGN_OR_RETURN(
      table.columns,
      params.integer("embedding_length_per_layer_input", 1, kMostSize));
  MOE_ASSIGN_OR_RETURN(table.pad,
                       params.integer("ple.eos_token_id", 0, kMostTokens - 1));
  table.ends = true;
  MOE_ASSIGN_OR_RETURN(table.multipliers,
                       params.integers(kNgramKeys.multipliers, table.size, 0));
  MOE_ASSIGN_OR_RETURN(table.moduli,
                       params.integers(kNgramKeys.moduli, table.rows(), 1));
  MOE_ASSIGN_OR_RETURN(table.offsets,
                       params.integers(kNgramKeys.offsets, table.rows(), 0));
  MOE_ASSIGN_OR_RETURN(
      ngrams.taps,
      params.integer(kTaps, 1,
                     std::min<int64_t>(moek::kMaxTaps,
                                       moek::kMaxConvRows / table.size + 1)));
  return ngrams;
}

/// Norms each stream of `x` with a weight of its own.
StatusOr<Value> normStreams(ModelBuilder &model, const Streams &s,
                            const std::string &name, Value x) {
  MOE_ASSIGN_OR_RETURN(Value weight,
                       model.flatVector(name + ".weight", s.count * s.hidden));
  return Value(model.create<moe::RmsNormOp>(
      name, x.getType(), x, weight, llvm::APFloat(s.eps), uint64_t(s.count)));
}

/// Returns the streams `x` plus v + silu(convolution(norm(v))), where v is the
/// value of the n-grams gated into each stream. The convolution's taps are as
/// many tokens apart as an n-gram has.
StatusOr<Value> addNgrams(ModelBuilder &model, const Streams &s,
                          const Ngrams &ngrams, const std::string &block,
                          Value x, Value tokens) {
  const std::string name = block + "ple_";
  const int64_t all = s.count * s.hidden;
  MOE_ASSIGN_OR_RETURN(
      Value found,
      buildNgramRows(model, ngrams.table, kNgramKeys, ngrams.layer, kTokensPart,
                     name + "embedding", "per_layer_token_embd", tokens));
  MOE_ASSIGN_OR_RETURN(Value key, model.linear(found, name + "key", all));
  MOE_ASSIGN_OR_RETURN(key, normStreams(model, s, name + "norm_key", key));
  MOE_ASSIGN_OR_RETURN(Value value,
                       model.linear(found, name + "value", s.hidden));
  MOE_ASSIGN_OR_RETURN(Value query,
                       normStreams(model, s, name + "norm_query", x));
  Value gated = model.create<moe::GateStreamsOp>(
      name + "gate", x.getType(), query, key, value, uint64_t(s.count));
  MOE_ASSIGN_OR_RETURN(Value normed,
                       normStreams(model, s, name + "norm_conv", gated));
  MOE_ASSIGN_OR_RETURN(Value conv,
                       model.vectors(name + "conv1d.weight", all, ngrams.taps));
  Value mixed = model.create<moe::ShortConvOp>(
      name + "conv1d", x.getType(), normed, conv, Value(),
      uint64_t(ngrams.layer), kConvolutionPart, uint64_t(ngrams.table.size),
      /*silu=*/true);
  mixed = model.create<moe::AddOp>(name + "sum", gated, mixed);
  return Value(model.create<moe::AddOp>(name + "add", x, mixed));
}
} // namespace

Status buildQwen4exp(ModelBuilder &model) {
  const HyperParams &params = model.params();
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  decoder.normsHead = false;
  MOE_ASSIGN_OR_RETURN(Streams streams, readStreams(params, decoder));
  MOE_ASSIGN_OR_RETURN(Ngrams ngrams, readNgrams(params, decoder));
  MOE_ASSIGN_OR_RETURN(std::vector<bool> recurrent,
                       readRecurrentLayers(model, decoder));
  MOE_ASSIGN_OR_RETURN(GroupedAttention attention,
                       readGroupedAttention(model, decoder, RopeTraits(),
                                            firstAttention(recurrent)));
  attention.gated = true;
  MOE_ASSIGN_OR_RETURN(DeltaNet net,
                       readDeltaNet(model, decoder, /*tiled=*/true));
  net.gate = moe::Gate::Sigmoid;
  RoutedExperts experts;
  experts.normalize = true;
  MOE_ASSIGN_OR_RETURN(std::vector<FeedForward> ffn,
                       readFeedForward(model, decoder, experts));

  MOE_ASSIGN_OR_RETURN(Value x, beginForward(model, decoder));
  Value tokens = x.getDefiningOp<moe::EmbeddingOp>().getTokens();
  x = model.create<moe::HyperSpreadOp>(
      "token_embd.out", model.rows(streams.count * decoder.hidden), x, Value(),
      Value(), uint64_t(streams.count));
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    const std::string block = model.beginLayer(layer);
    if (layer == ngrams.layer) {
      MOE_ASSIGN_OR_RETURN(x,
                           addNgrams(model, streams, ngrams, block, x, tokens));
    }
    MOE_ASSIGN_OR_RETURN(Read read,
                         readFrom(model, streams, block + "hc_attn_", x));
    Value y;
    if (recurrent[size_t(layer)]) {
      MOE_ASSIGN_OR_RETURN(y,
                           buildDeltaNet(model, net, layer, block, read.mixed));
    } else {
      MOE_ASSIGN_OR_RETURN(MeanIndexer indexer,
                           readMeanIndexer(model, attention, layer));
      MOE_ASSIGN_OR_RETURN(
          BlockChoice blocks,
          chooseByMeans(model, indexer, attention, layer, block, read.mixed));
      MOE_ASSIGN_OR_RETURN(y, buildGroupedAttention(model, attention, layer,
                                                    block, read.mixed, blocks));
    }
    MOE_ASSIGN_OR_RETURN(
        x, addTo(model, streams, block + "hc_attn_", x, read.normed, y));
    MOE_ASSIGN_OR_RETURN(read, readFrom(model, streams, block + "hc_ffn_", x));
    MOE_ASSIGN_OR_RETURN(
        y, buildFeedForward(model, ffn[size_t(layer)], block, read.mixed));
    MOE_ASSIGN_OR_RETURN(
        x, addTo(model, streams, block + "hc_ffn_", x, read.normed, y));
  }
  model.endLayers();
  MOE_ASSIGN_OR_RETURN(Read read, readFrom(model, streams, "output_hc_", x));
  return endForward(model, decoder, read.mixed);
}

} // namespace moec
