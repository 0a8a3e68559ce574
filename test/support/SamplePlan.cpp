#include "test/support/SamplePlan.h"

#include "kernels/Activation.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace moetest {
using moek::Encoding;

SamplePlan::SamplePlan(const std::string &isa, Room room)
    : builder(kHidden, kVocab, room.context, isa) {
  builder.plan.experts = kExperts;
  builder.plan.experts_used = kTopK;
  weight("embed", {1, kVocab, kHidden});
  for (const char *norm : {"attn_norm", "dense_norm", "moe_norm", "out_norm"})
    weight(norm, {1, 1, kHidden}, 1);
  weight("wq", {1, kHeads * (kNope + kRope), kHidden});
  weight("wkv", {1, kLatent + kRope, kHidden});
  weight("kv_norm", {1, 1, kLatent}, 1);
  weight("wk", {kHeads, kNope, kLatent});
  weight("wv", {kHeads, kValue, kLatent});
  weight("wo", {1, kHidden, kHeads * kValue});
  weight("dense_gate", {1, kDenseWidth, kHidden});
  weight("dense_up", {1, kDenseWidth, kHidden});
  weight("dense_down", {1, kHidden, kDenseWidth});
  weight("router", {1, kExperts, kHidden});
  weight("router_bias", {1, 1, kExperts});
  weight("gate", {kExperts, kExpertWidth, kHidden});
  weight("up", {kExperts, kExpertWidth, kHidden});
  weight("down", {kExperts, kHidden, kExpertWidth});
  weight("shared_gate", {1, kExpertWidth, kHidden});
  weight("shared_up", {1, kExpertWidth, kHidden});
  weight("shared_down", {1, kHidden, kExpertWidth});
  weight("out", {1, kVocab, kHidden});
  weight("out_bias", {1, 1, kVocab});
  refs_["inv_freq"] = builder.constant("inv_freq", {1.0f, 0.1f});
  refs_["kv"] = builder.kv(kLatent + kRope, room.type, room.pages);
  addBody("decode", 1, true);
  if (room.sequences > 1)
    addBatch(room.sequences);
  addBody("prefill", room.ubatch, false);
  addHead();
  for (auto &phase : builder.plan.phases)
    for (auto &instruction : phase->instructions)
      addWork(*instruction);
}

/// Adds bytes of weights, two operations per value of a matrix, and attention's
/// products with each row that a token sees.
void SamplePlan::addWork(fb::InstructionT &instruction) const {
  double bytes = 0, ops = 0;
  for (const fb::Operand &operand : instruction.operands) {
    if (operand.kind() != fb::OperandKind::Weight)
      continue;
    const fb::WeightT &weight = *builder.plan.weights[operand.index()];
    auto values = double(weight.outer * weight.rows * weight.cols);
    bytes += 4 * values;
    ops += weight.rows > 1 ? 2 * values : 0;
  }
  fb::Work work(ops, 0, 0, bytes, 0);
  constexpr double used = double(kTopK) / kExperts;
  switch (moek::OpCode(instruction.op)) {
  case moek::OpCode::Embed:
    work = fb::Work(0, 0, 0, bytes / kVocab, 1);
    break;
  case moek::OpCode::ExpertsGateUp:
  case moek::OpCode::ExpertsLinear:
    work = fb::Work(used * ops, 0, 0, used * bytes, 1 - used);
    break;
  case moek::OpCode::LatentAttention:
    work = fb::Work(0, 2 * kHeads * (2 * kLatent + kRope), 0, 0, 0);
    break;
  case moek::OpCode::MlaAttention:
    work = fb::Work(0, 2 * kHeads * (kNope + kRope + kValue), ops, bytes, 0);
    break;
  default:
    break;
  }
  instruction.work = std::make_unique<fb::Work>(work);
}

/// Values are uniform in center +- 0.5, from a linear congruential generator
/// (Knuth's MMIX constants), so that they are the same everywhere.
Ref SamplePlan::weight(const std::string &name, std::vector<int64_t> shape,
                       double center) {
  std::vector<float> &values = values_[name];
  values.resize(size_t(shape[0] * shape[1] * shape[2]));
  for (float &value : values) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    value = float(center + double(state_ >> 11) * 0x1p-53 - 0.5);
  }
  return refs_[name] = builder.weight(name, std::move(shape), values);
}

void SamplePlan::addBody(const std::string &name, int32_t maxTokens,
                         bool absorbed) {
  PhaseBuilder p = builder.phase(name, absorbed ? 1 : 2, maxTokens);
  auto w = [&](const char *weightName) { return refs_.at(weightName); };
  const Ref none;
  constexpr int64_t query = kHeads * (kNope + kRope);
  constexpr auto kSilu = int64_t(moek::Activation::Silu);

  Ref tokens = p.buffer("tokens", 1, Encoding::I32);
  Ref h = p.buffer("h", kHidden);
  Ref n = p.buffer("n", kHidden);
  Ref table = p.buffer("table", kRope);
  Ref q = p.buffer("q", query);
  Ref latent = p.buffer("latent", kLatent + kRope);
  Ref v = p.buffer("v", kHeads * kValue);
  p.input(tokens);
  p.output(h);

  p.emit("embed", {tokens, w("embed"), h}, {0});
  p.emit("rope_table", {w("inv_freq"), table}, {}, {1});
  p.emit("rms_norm", {h, w("attn_norm"), n}, {1}, {kEps});
  // No op reads these rows: quantised gemms have their own tests.
  Ref encoded = p.buffer("n8", kHidden, Encoding::A8);
  p.emit("quantize", {n, encoded});
  p.emit("linear", {n, w("wq"), none, q}, {0});
  p.emit("rope", {q, table}, {kHeads, kNope + kRope, kNope, kRope, 0});
  p.emit("linear", {n, w("wkv"), none, latent}, {0});
  p.emit("mla_latent", {latent, w("kv_norm"), table, w("kv")}, {kLatent, kRope},
         {kEps});
  if (absorbed) {
    Ref qa = p.buffer("qa", kHeads * (kLatent + kRope));
    Ref o = p.buffer("o", kHeads * kLatent);
    p.emit("absorb_query", {q, w("wk"), qa}, {kHeads, kNope, kRope, kLatent});
    p.emit("latent_attention", {qa, w("kv"), o}, {kHeads, kLatent, kRope, 1},
           {kScale});
    p.emit("head_linear", {o, w("wv"), v}, {kHeads, kValue, kLatent, 0});
  } else {
    p.emit("mla_attention", {q, w("kv"), w("wk"), none, w("wv"), v},
           {kHeads, kNope, kRope, kLatent, kValue}, {kScale});
  }
  p.emit("linear", {v, w("wo"), none, h}, {1});

  Ref gate = p.buffer("gate", kDenseWidth), up = p.buffer("up", kDenseWidth);
  Ref d = p.buffer("d", kHidden);
  p.emit("rms_norm", {h, w("dense_norm"), n}, {1}, {kEps});
  p.emit("linear", {n, w("dense_gate"), none, gate}, {0});
  p.emit("linear", {n, w("dense_up"), none, up}, {0});
  p.emit("activation_mul", {gate, up, gate}, {kSilu});
  p.emit("linear", {gate, w("dense_down"), none, d}, {0});
  p.emit("add", {h, d, h});

  Ref logits = p.buffer("router_logits", kExperts);
  Ref ids = p.buffer("ids", kTopK, Encoding::I32);
  Ref weights = p.buffer("weights", kTopK);
  Ref offsets = p.buffer("offsets", kExperts + 1, Encoding::I32, 0, 1);
  Ref slots = p.buffer("slots", 1, Encoding::I32, kTopK);
  Ref hidden = p.buffer("expert_hidden", kExpertWidth, Encoding::F32, kTopK);
  Ref y = p.buffer("y", kHidden, Encoding::F32, kTopK);
  Ref s = p.buffer("s", kExpertWidth);
  p.emit("rms_norm", {h, w("moe_norm"), n}, {1}, {kEps});
  p.emit("linear", {n, w("router"), none, logits}, {0});
  p.emit("router", {logits, w("router_bias"), none, ids, weights},
         {kExperts, kTopK, 1, 1, 1, int64_t(moek::Scoring::Sigmoid), 1},
         {kRouterScale});
  p.emit("expert_group", {ids, offsets, slots}, {kExperts, kTopK});
  p.emit("experts_gate_up",
         {n, w("gate"), w("up"), none, none, offsets, slots, hidden},
         {kTopK, kSilu});
  p.emit("experts_linear", {hidden, w("down"), none, offsets, slots, y},
         {kTopK, 0});
  p.emit("experts_combine", {y, weights, h}, {kTopK, 1});
  p.emit("gate_up", {n, w("shared_gate"), w("shared_up"), none, none, s},
         {kSilu});
  p.emit("linear", {s, w("shared_down"), none, h}, {1});
}

void SamplePlan::addHead() {
  PhaseBuilder p = builder.phase("logits", 1, kLogitRows);
  Ref h = p.buffer("h", kHidden);
  Ref n = p.buffer("n", kHidden);
  Ref logits = p.buffer("logits", kVocab);
  p.input(h);
  p.output(logits);
  p.emit("rms_norm", {h, refs_.at("out_norm"), n}, {1}, {kEps});
  p.emit("linear", {n, refs_.at("out"), refs_.at("out_bias"), logits}, {0});
}

void SamplePlan::addBatch(int32_t sequences) {
  addBody("batch", sequences, true);
  builder.plan.sequences = sequences;
}

void SamplePlan::addSequences(int32_t count) {
  addBatch(count);
  for (const auto &layer : builder.plan.kv) {
    builder.plan.devices[0]->kv_bytes *= uint64_t(count);
    layer->capacity *= count;
  }
}

void SamplePlan::addTokenizer() {
  auto tokenizer = std::make_unique<fb::TokenizerT>();
  tokenizer->model = "gpt2";
  tokenizer->pre = "gpt-2";
  tokenizer->tokens = {"<s>", "</s>", "\u0120", ".", "th", "the"};
  for (char c = 'a'; c <= 'z'; ++c)
    tokenizer->tokens.push_back(std::string(1, c));
  tokenizer->tokens.push_back("\u010A"); // The token kLineEnd.
  while (tokenizer->tokens.size() < kVocab)
    tokenizer->tokens.push_back("<unused" +
                                std::to_string(tokenizer->tokens.size()) + ">");
  tokenizer->types.assign(kVocab, 1);
  tokenizer->types[0] = tokenizer->types[1] = 3; // Type of control tokens.
  tokenizer->merges = {"t h", "th e"};
  tokenizer->bos = 0;
  tokenizer->eos = 1;
  tokenizer->add_bos = true;
  builder.plan.tokenizer = std::move(tokenizer);
}

fb::PhaseT &SamplePlan::phase(std::string_view name) const {
  for (const auto &phase : builder.plan.phases)
    if (phase->name == name)
      return *phase;
  throw std::logic_error("no such phase");
}

void SamplePlan::fillRow(std::string_view name, int64_t matrix, int64_t row,
                         float value) {
  auto found =
      std::ranges::find(builder.plan.weights, name, &fb::WeightT::name);
  if (found == builder.plan.weights.end())
    throw std::logic_error("no such weight");
  const fb::WeightT &w = **found;
  uint8_t *to = builder.weightBytes().data() + w.offset +
                matrix * w.outer_stride + row * w.row_stride;
  for (int64_t c = 0; c < w.cols; ++c)
    std::memcpy(to + c * 4, &value, 4);
}

size_t SamplePlan::find(std::string_view phaseName, std::string_view op) const {
  const fb::PhaseT &table = phase(phaseName);
  for (size_t i = 0; i < table.instructions.size(); ++i)
    if (moert::findOp(table.instructions[i]->op)->name == op)
      return i;
  throw std::logic_error("no such op");
}

void SamplePlan::makePerWorker(std::string_view phaseName,
                               std::string_view name) {
  fb::PhaseT &table = phase(phaseName);
  auto found = std::ranges::find(table.buffers, name, &fb::BufferT::name);
  if (found == table.buffers.end())
    throw std::logic_error("no such buffer");
  fb::BufferT &buffer = **found;
  uint64_t &end = builder.plan.devices[0]->worker_bytes;
  buffer.per_worker = true;
  buffer.offset = end;
  end += moert::alignUp(
      uint64_t(buffer.rows_per_token * table.max_tokens + buffer.fixed_rows) *
          moek::encodedRowBytes(Encoding(buffer.encoding), buffer.cols),
      64);
}

void SamplePlan::dropBarrier(std::string_view phaseName, std::string_view op) {
  phase(phaseName).instructions[find(phaseName, op)]->barrier = false;
}

} // namespace moetest
