// A layer like gpt-oss's, with grouped heads, windows, sinks, gates and biases:
// what an engine computes against float64, and which plans are refused.
#include "kernels/KvCache.h"
#include "test/support/PlanEngineTest.h"

#include <cmath>

using namespace moert;
using moek::Encoding;
using moetest::PhaseBuilder;
using moetest::Ref;
using moetest::setInt;
using moetest::SmallModel;
using moetest::Tokens;
namespace fb = moert::fb;

namespace {

class GroupedPlan : public SmallModel {
public:
  static constexpr int32_t kHidden = 32, kVocab = 40, kContext = 24;
  static constexpr int32_t kHeads = 4, kKvHeads = 2, kKey = 8, kValue = 12;
  static constexpr int32_t kWindow = 5, kExperts = 3, kTopK = 2, kWidth = 16;
  static constexpr double kEps = 1e-5, kScale = 0.4, kCap = 2, kTurn = 1.25;

  explicit GroupedPlan(const std::string &isa)
      : SmallModel(kHidden, kVocab, kContext, isa, kEps, /*center=*/0.1) {
    weight("wq", {1, kHeads * kKey, kHidden});
    weight("wk", {1, kKvHeads * kKey, kHidden});
    weight("wv", {1, kKvHeads * kValue, kHidden});
    weight("wg", {1, 1, kHidden});
    weight("wo", {1, kHidden, kHeads * kValue});
    weight("sinks", {1, 1, kHeads});
    weight("router", {1, kExperts, kHidden});
    weight("gate", {kExperts, kWidth, kHidden});
    weight("up", {kExperts, kWidth, kHidden});
    weight("down", {kExperts, kHidden, kWidth});
    weight("gate_bias", {1, kExperts, kWidth});
    weight("up_bias", {1, kExperts, kWidth});
    weight("down_bias", {1, kExperts, kHidden});
    refs["inv_freq"] = builder.constant("inv_freq", {1, 0.3f, 0.1f, 0.02f});
    refs["kv"] = builder.kv(moek::gqaKvWidth(kKvHeads, kKey, kValue));
    body("decode", 1, 2);
    body("prefill", 5, 1);
    head();
  }

  /// Returns the logits after each of `tokens`.
  std::vector<Values> reference(const Tokens &tokens) const {
    std::vector<Values> keys, values, result;
    for (size_t t = 0; t < tokens.size(); ++t) {
      Values h = embedded(tokens[t]);
      Values n = norm(h), q = product("wq", n), k = product("wk", n);
      turn(q, double(t));
      turn(k, double(t));
      keys.push_back(k);
      values.push_back(product("wv", n));
      Values o = attention(q, keys, values);
      double gate = product("wg", n)[0];
      for (double &x : o)
        x *= sigmoid(gate);
      add(h, product("wo", o));
      add(h, experts(norm(h)));
      result.push_back(product("out", h));
    }
    return result;
  }

private:
  void body(const std::string &name, int32_t tokens, int32_t splits) {
    PhaseBuilder p = builder.phase(name, tokens == 1 ? 1 : 2, tokens);
    auto w = [&](const char *weight) { return refs.at(weight); };
    const Ref none;
    Ref ids = p.buffer("tokens", 1, Encoding::I32), h = p.buffer("h", kHidden);
    Ref n = p.buffer("n", kHidden), table = p.buffer("table", kKey);
    Ref q = p.buffer("q", kHeads * kKey), k = p.buffer("k", kKvHeads * kKey);
    Ref v = p.buffer("v", kKvHeads * kValue),
        o = p.buffer("o", kHeads * kValue);
    Ref gate = p.buffer("g", 1);
    p.input(ids);
    p.output(h);
    p.emit("embed", {ids, w("embed"), h}, {0});
    p.emit("rope_table", {w("inv_freq"), table}, {}, {kTurn});
    p.emit("rms_norm", {h, w("norm"), n}, {1}, {kEps});
    p.emit("linear", {n, w("wq"), none, q}, {0});
    p.emit("linear", {n, w("wk"), none, k}, {0});
    p.emit("linear", {n, w("wv"), none, v}, {0});
    p.emit("rope", {q, table}, {kHeads, kKey, 0, kKey, 1});
    p.emit("rope", {k, table}, {kKvHeads, kKey, 0, kKey, 1});
    p.emit("kv_store", {k, v, w("kv")}, {kKvHeads, kKey, kValue});
    Ref sums = splits == 1 ? o
                           : p.buffer("spans", kHeads * (kValue + 2),
                                      Encoding::F32, splits);
    p.emit("attention", {q, w("kv"), w("sinks"), sums},
           {kHeads, kKvHeads, kKey, kValue, splits, kWindow}, {kScale, kCap});
    if (splits > 1)
      p.emit("combine_splits", {sums, o}, {kHeads, kValue, splits, kWindow});
    p.emit("linear", {n, w("wg"), none, gate}, {0});
    p.emit("gate_mul", {o, gate, o}, {0});
    p.emit("linear", {o, w("wo"), none, h}, {1});

    Ref logits = p.buffer("router_logits", kExperts);
    Ref chosen = p.buffer("ids", kTopK, Encoding::I32);
    Ref weights = p.buffer("weights", kTopK);
    Ref offsets = p.buffer("offsets", kExperts + 1, Encoding::I32, 0, 1);
    Ref slots = p.buffer("slots", 1, Encoding::I32, kTopK);
    Ref inner = p.buffer("inner", kWidth, Encoding::F32, kTopK);
    Ref y = p.buffer("y", kHidden, Encoding::F32, kTopK);
    p.emit("rms_norm", {h, w("norm"), n}, {1}, {kEps});
    p.emit("linear", {n, w("router"), none, logits}, {0});
    p.emit("router", {logits, none, none, chosen, weights},
           {kExperts, kTopK, 1, 1, 1, int64_t(moek::Scoring::SoftmaxTopK), 0},
           {1});
    p.emit("expert_group", {chosen, offsets, slots}, {kExperts, kTopK});
    p.emit("experts_gate_up",
           {n, w("gate"), w("up"), w("gate_bias"), w("up_bias"), offsets, slots,
            inner},
           {kTopK, int64_t(moek::Activation::ClampedSwiglu)});
    p.emit("experts_linear",
           {inner, w("down"), w("down_bias"), offsets, slots, y}, {kTopK, 0});
    p.emit("experts_combine", {y, weights, h}, {kTopK, 1});
  }

  static void turn(Values &x, double position) {
    const double frequencies[] = {1, 0.3f, 0.1f, 0.02f};
    for (size_t head = 0; head < x.size(); head += kKey)
      for (size_t i = 0; i < kKey / 2; ++i) {
        double c = kTurn * std::cos(position * frequencies[i]);
        double s = kTurn * std::sin(position * frequencies[i]);
        double u = x[head + i], v = x[head + i + kKey / 2];
        x[head + i] = u * c - v * s;
        x[head + i + kKey / 2] = v * c + u * s;
      }
  }
  Values attention(const Values &q, const std::vector<Values> &keys,
                   const std::vector<Values> &values) const {
    Values out(kHeads * kValue, 0);
    for (size_t h = 0; h < kHeads; ++h) {
      size_t group = h / (kHeads / kKvHeads);
      double total = std::exp(at("sinks", int64_t(h)));
      size_t first = keys.size() < kWindow ? 0 : keys.size() - kWindow;
      for (size_t t = first; t < keys.size(); ++t) {
        double score = 0;
        for (size_t i = 0; i < kKey; ++i)
          score += q[h * kKey + i] * keys[t][group * kKey + i];
        double weight = std::exp(kCap * std::tanh(score * kScale / kCap));
        total += weight;
        for (size_t c = 0; c < kValue; ++c)
          out[h * kValue + c] += weight * values[t][group * kValue + c];
      }
      for (size_t c = 0; c < kValue; ++c)
        out[h * kValue + c] /= total;
    }
    return out;
  }
  Values experts(const Values &x) const {
    Values logits = product("router", x), out(kHidden, 0);
    size_t worst = size_t(std::ranges::min_element(logits) - logits.begin());
    double total = 0;
    for (size_t e = 0; e < kExperts; ++e)
      total += e == worst ? 0 : std::exp(logits[e]);
    for (size_t e = 0; e < kExperts; ++e) {
      if (e == worst)
        continue;
      Values gate = product("gate", x, int64_t(e));
      Values up = product("up", x, int64_t(e));
      for (size_t i = 0; i < kWidth; ++i) {
        double g = gate[i] + at("gate_bias", int64_t(e * kWidth + i));
        double u = up[i] + at("up_bias", int64_t(e * kWidth + i));
        g = std::fmin(g, 7);
        u = std::fmax(-7, std::fmin(u, 7));
        gate[i] = g / (1 + std::exp(-1.702 * g)) * (u + 1);
      }
      Values y = product("down", gate, int64_t(e));
      for (size_t i = 0; i < kHidden; ++i)
        out[i] += std::exp(logits[e]) / total *
                  (y[i] + at("down_bias", int64_t(e * kHidden + i)));
    }
    return out;
  }
};

using GroupedPlanTest = moetest::PlanEngineTest<GroupedPlan>;

TEST_F(GroupedPlanTest, MatchesFloat64InBothPhases) {
  expectFloat64({3, 17, 39, 0, 8, 8, 21, 30, 5, 11, 2});
}

using Refusal = moetest::Refusal<GroupedPlan>;

class GroupedProofTest : public testing::TestWithParam<Refusal> {};

TEST_P(GroupedProofTest, Refuses) {
  GroupedPlan plan("ref");
  GetParam().damage(plan);
  moetest::expectRefused(plan.builder, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GroupedProofTest,
    testing::ValuesIn(std::vector<Refusal>{
        {"StoreHeads", "operand k has 1 rows of 16 elements per token",
         setInt("kv_store", 0, 3)},
        {"StoreValue", "operand v has 1 rows of 24 elements per token",
         setInt("kv_store", 2, 11)},
        {"CacheWidth",
         "the cache's width is 250, but that of its heads' keys and values is "
         "256",
         [](GroupedPlan &p) { p.builder.plan.kv[0]->width = 250; }},
        {"Groups", "kv_heads divide the heads", setInt("attention", 1, 3)},
        {"MoreKvHeads", "kv_heads divide the heads", setInt("attention", 1, 8)},
        {"NoKvHeads", "kv_heads = 0", setInt("attention", 1, 0)},
        {"Key", "operand q has 1 rows of 32 elements per token",
         setInt("attention", 2, 9)},
        {"Spans", "operand out has 2 rows of 56 elements per token",
         setInt("attention", 4, 3)},
        {"Splits", "splits = 513, expected 1 to 512",
         setInt("attention", 4, 513)},
        {"Window", "window = -1", setInt("attention", 5, -1)},
        {"CombinedWindow", "window = -1", setInt("combine_splits", 3, -1)},
        {"Cap", "softcap is not negative",
         [](GroupedPlan &p) { p.decode("attention").floats[1] = -1; }},
        {"Sinks", "operand sinks is 1 x 32, expected 1 x 4",
         [](GroupedPlan &p) {
           p.decode("attention").operands[2] =
               fb::Operand(fb::OperandKind::Weight, p.refs.at("norm").index);
         }},
        {"InfiniteSink", "weight \"sinks\" holds inf at index 0",
         [](GroupedPlan &p) {
           const float infinity = INFINITY;
           std::memcpy(p.builder.weightBytes().data() +
                           p.weightNamed("sinks").offset,
                       &infinity, 4);
         }},
        {"Gate", "gates divide the columns of x into equal parts",
         [](GroupedPlan &p) {
           // The operand is the buffer of 32 normed columns; x has 48.
           p.decode("gate_mul").operands[1] = p.decode("rms_norm").operands[2];
         }},
        {"GateFunction", "function = 3, expected 0 to 2",
         setInt("gate_mul", 0, 3)},
        {"Activation", "activation = 5, expected 0 to 4",
         setInt("experts_gate_up", 1, 5)},
        {"GateBias", "operand gate_bias is 3 x 32, expected 3 x 16",
         [](GroupedPlan &p) {
           p.decode("experts_gate_up").operands[3] = fb::Operand(
               fb::OperandKind::Weight, p.refs.at("down_bias").index);
         }},
        {"DownBiasExperts", "operand bias is 2 x 32, expected 3 x 32",
         [](GroupedPlan &p) { p.weightNamed("down_bias").rows = 2; }},
        {"BiasStride",
         "operand bias's row stride is 132, but the bytes of a "
         "row is 128",
         [](GroupedPlan &p) { p.weightNamed("down_bias").row_stride = 132; }},
    }),
    Refusal::nameOf);

} // namespace
