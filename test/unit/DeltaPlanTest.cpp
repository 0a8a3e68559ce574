// A layer that keeps a state and one that caches rows: what an engine computes
// of them against float64, however sequences come to where they are, and what a
// plan of it is refused for.
#include "kernels/KvCache.h"
#include "test/support/PlanEngineTest.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace moert;
using moek::Encoding;
using moetest::PhaseBuilder;
using moetest::Ref;
using moetest::setInt;
using moetest::SmallModel;
using moetest::Tokens;
namespace fb = moert::fb;

namespace {

constexpr int32_t kPage = moek::kKvPage;

class DeltaPlan : public SmallModel {
public:
  static constexpr int32_t kHidden = 16, kVocab = 40, kContext = 4 * kPage;
  static constexpr int32_t kKeyHeads = 2, kHeads = 4, kKey = 6, kValue = 5;
  static constexpr int32_t kTaps = 3, kDim = 8, kUbatch = 24, kSequences = 3;
  static constexpr int32_t kMixed = 2 * kKeyHeads * kKey + kHeads * kValue;
  static constexpr double kEps = 1e-3, kScale = 0.4;

  explicit DeltaPlan(const std::string &isa, int32_t slots = 6)
      : SmallModel(kHidden, kVocab, kContext, isa, kEps) {
    weight("mix", {1, kMixed, kHidden});
    weight("beta", {1, kHeads, kHidden});
    weight("alpha", {1, kHeads, kHidden});
    weight("conv", {1, kMixed, kTaps});
    weight("a", {1, 1, kHeads}, -0.7);
    weight("dt", {1, 1, kHeads});
    weight("o", {1, kHidden, kHeads * kValue});
    weight("wq", {1, 2 * kDim, kHidden});
    weight("wk", {1, kDim, kHidden});
    weight("wo", {1, kHidden, kDim});
    refs["kv"] =
        builder.kv(moek::gqaKvWidth(1, kDim, kDim), moek::KvType::F32, 12);
    refs["state"] = builder.state(
        moek::deltaStateWidth(kTaps, kMixed, kHeads, kKey, kValue), slots);
    builder.plan.sequences = kSequences;
    body("decode", 1, 1);
    body("batch", 1, kSequences);
    body("prefill", 2, kUbatch);
    head();
  }

  /// Logits after each of `tokens`.
  std::vector<Values> reference(const Tokens &tokens) const {
    std::vector<Values> inputs, keys, result;
    Values S(kHeads * kKey * kValue, 0);
    for (int32_t token : tokens) {
      Values h = embedded(token);
      Values n = norm(h);
      inputs.push_back(product("mix", n));
      add(h, product("o", delta(S, convolution(inputs), product("beta", n),
                                product("alpha", n))));
      n = norm(h);
      keys.push_back(product("wk", n));
      add(h, product("wo", attention(product("wq", n), keys)));
      result.push_back(product("out", h));
    }
    return result;
  }

private:
  void body(const std::string &name, int32_t least, int32_t most) {
    PhaseBuilder p = builder.phase(name, least, most);
    auto w = [&](const char *weight) { return refs.at(weight); };
    const Ref none;
    Ref ids = p.buffer("tokens", 1, Encoding::I32), h = p.buffer("h", kHidden);
    Ref n = p.buffer("n", kHidden), mix = p.buffer("mix", kMixed);
    Ref beta = p.buffer("beta", kHeads), alpha = p.buffer("alpha", kHeads);
    Ref conv = p.buffer("conv", kMixed), gates = p.buffer("gates", 2 * kHeads);
    Ref o = p.buffer("o", kHeads * kValue), both = p.buffer("both", 2 * kDim);
    Ref q = p.buffer("q", kDim), gate = p.buffer("gate", kDim);
    Ref k = p.buffer("k", kDim), y = p.buffer("y", kDim);
    p.input(ids);
    p.output(h);
    p.emit("embed", {ids, w("embed"), h}, {0});
    p.emit("rms_norm", {h, w("norm"), n}, {1}, {kEps});
    p.emit("linear", {n, w("mix"), none, mix}, {0});
    p.emit("linear", {n, w("beta"), none, beta}, {0});
    p.emit("linear", {n, w("alpha"), none, alpha}, {0});
    p.emit("short_conv", {mix, w("conv"), w("state"), conv}, {kTaps});
    p.emit("delta_gates", {beta, alpha, w("a"), w("dt"), gates});
    p.emit("delta_rule", {conv, gates, w("state"), o},
           {kKeyHeads, kHeads, kKey, kValue,
            moek::deltaStateBegin(kTaps, kMixed), 1},
           {kEps});
    p.emit("linear", {o, w("o"), none, h}, {1});
    p.emit("rms_norm", {h, w("norm"), n}, {1}, {kEps});
    p.emit("linear", {n, w("wq"), none, both}, {0});
    p.emit("regroup", {both, q}, {1, 0, kDim, 0, 0});
    p.emit("regroup", {both, gate}, {1, kDim, kDim, 0, 0});
    p.emit("linear", {n, w("wk"), none, k}, {0});
    p.emit("kv_store", {k, k, w("kv")}, {1, kDim, kDim});
    p.emit("attention", {q, w("kv"), none, y}, {1, 1, kDim, kDim, 1, 0},
           {kScale, 0});
    p.emit("sigmoid_mul", {y, gate, y});
    p.emit("linear", {y, w("wo"), none, h}, {1});
  }

  Values convolution(const std::vector<Values> &inputs) const {
    Values out(kMixed, 0);
    for (int64_t c = 0; c < kMixed; ++c) {
      for (int64_t j = 0; j < kTaps; ++j)
        if (int64_t t = int64_t(inputs.size()) - kTaps + j; t >= 0)
          out[size_t(c)] +=
              at("conv", c * kTaps + j) * inputs[size_t(t)][size_t(c)];
      out[size_t(c)] *= sigmoid(out[size_t(c)]);
    }
    return out;
  }
  Values delta(Values &S, const Values &x, const Values &beta,
               const Values &alpha) const {
    auto unit = [&](int64_t begin) {
      Values v(x.begin() + begin, x.begin() + begin + kKey);
      double squares = kEps;
      for (double value : v)
        squares += value * value;
      for (double &value : v)
        value /= std::sqrt(squares);
      return v;
    };
    Values out;
    for (int64_t h = 0; h < kHeads; ++h) {
      Values q = unit(h % kKeyHeads * kKey);
      Values k = unit((kKeyHeads + h % kKeyHeads) * kKey);
      double decay = std::exp(
          at("a", h) * std::log1p(std::exp(alpha[size_t(h)] + at("dt", h))));
      for (int64_t c = 0; c < kValue; ++c) {
        auto s = [&](int64_t i) -> double & {
          return S[size_t((h * kKey + i) * kValue + c)];
        };
        double found = 0, answer = 0;
        for (int64_t i = 0; i < kKey; ++i)
          found += (s(i) *= decay) * k[size_t(i)];
        double v = x[size_t(2 * kKeyHeads * kKey + h * kValue + c)];
        double e = sigmoid(beta[size_t(h)]) * (v - found);
        for (int64_t i = 0; i < kKey; ++i)
          answer += (s(i) += k[size_t(i)] * e) * q[size_t(i)];
        out.push_back(answer / std::sqrt(double(kKey)));
      }
    }
    return out;
  }
  static Values attention(const Values &both, const std::vector<Values> &keys) {
    Values out(kDim, 0);
    double total = 0;
    for (const Values &key : keys) {
      double score = 0;
      for (size_t i = 0; i < kDim; ++i)
        score += both[i] * key[i];
      double weight = std::exp(kScale * score);
      total += weight;
      for (size_t i = 0; i < kDim; ++i)
        out[i] += weight * key[i];
    }
    for (size_t i = 0; i < kDim; ++i)
      out[i] = out[i] / total * sigmoid(both[kDim + i]);
    return out;
  }
};

class StatesTest : public moetest::PlanEngineTest<DeltaPlan> {
protected:
  Engine &open(int32_t slots = 6) { return openOn(bestIsa(), slots); }
};

TEST_F(StatesTest, MatchFloat64InAllPhases) { expectFloat64(textOf(3, 90)); }

TEST_F(StatesTest, SequencesBesideOthersKeepTheirOwn) {
  open();
  expectStepsOfMany({5, 12, 19});
}

// A slot is used again as it was left.
TEST_F(StatesTest, ANewSequenceBeginsAtZero) {
  Engine &engine = open(1);
  for (uint32_t i = 0; i < 3; ++i) {
    Sequence a = engine.sequence();
    EXPECT_EQ(append(a, textOf(i, 30)), 30);
    ASSERT_TRUE(a.rewind(0).isOk());
    EXPECT_EQ(append(a, textOf(i + 10, 1)), 1);
  }
}

TEST_F(StatesTest, RewindingEvaluatesAgainFromTheLastCheckpoint) {
  Engine &engine = open();
  Sequence a = engine.sequence();
  // The prompt leaves one behind its second page.
  EXPECT_EQ(append(a, textOf(1, 2 * kPage + 20)), 2 * kPage + 20);
  EXPECT_EQ(append(a, {5}), 1);
  ASSERT_TRUE(a.rewind(2 * kPage + 9).isOk());
  EXPECT_EQ(a.position(), 2 * kPage + 9);
  EXPECT_EQ(append(a, {7}), 9 + 1);
  EXPECT_EQ(append(a, {8}), 1);
  // To the checkpoint itself: nothing to evaluate again.
  ASSERT_TRUE(a.rewind(2 * kPage).isOk());
  EXPECT_EQ(append(a, {9, 10}), 2);
  // Before it, there is none.
  ASSERT_TRUE(a.rewind(2 * kPage - 1).isOk());
  EXPECT_EQ(append(a, {11}), 2 * kPage);
  // To where it is: nothing changes.
  ASSERT_TRUE(a.rewind(a.position()).isOk());
  EXPECT_EQ(append(a, {12}), 1);
}

// The page behind which the checkpoint was has other tokens now.
TEST_F(StatesTest, ACheckpointGoesWithItsPage) {
  for (bool share : {true, false}) {
    SCOPED_TRACE(share);
    Engine &engine = open();
    Sequence a = engine.sequence({share});
    append(a, textOf(1, kPage + 10));
    ASSERT_TRUE(a.rewind(kPage - 2).isOk());
    for (int32_t token : {1, 2, 3, 4})
      append(a, {token});
    ASSERT_TRUE(a.rewind(kPage + 1).isOk());
    EXPECT_EQ(append(a, {6}), kPage + 2);
  }
}

TEST_F(StatesTest, AForkGoesItsOwnWay) {
  Engine &engine = open();
  Sequence a = engine.sequence();
  append(a, textOf(2, 40));
  Sequence b = a.fork();
  EXPECT_EQ(append(a, {1}), 1);
  EXPECT_EQ(append(b, {2}), 1);
  EXPECT_EQ(append(a, {3, 4, 5}), 3);
  EXPECT_EQ(append(b, {6}), 1);
}

// Without a slot for it, a fork evaluates its text again, when there is one.
TEST_F(StatesTest, AForkWithoutASlotBeginsAgain) {
  Engine &engine = open(2);
  Sequence a = engine.sequence();
  append(a, textOf(2, 40));
  std::optional<Sequence> b = a.fork();
  Sequence c = a.fork();
  auto none = engine.append(c, 1);
  ASSERT_FALSE(none.isOk());
  EXPECT_EQ(none.status().code(), StatusCode::DoesNotFit);
  EXPECT_NE(none.status().message().find(
                "the states of 2 sequences are held by other sequences; end "
                "one of them, or compile for more with --sequences"),
            std::string::npos)
      << none.status().message();
  EXPECT_EQ(c.position(), 40);
  Sequence d = c.fork();
  std::string file = folder_.path() + "/c.seq";
  ASSERT_TRUE(c.save(file).isOk());
  b.reset();
  EXPECT_EQ(append(c, {1}), 41);
  c = engine.sequence();
  EXPECT_EQ(append(d, {2}), 41);
  d = engine.sequence();
  auto restored = engine.restore(file);
  ASSERT_TRUE(restored.isOk()) << restored.status().message();
  EXPECT_EQ(restored->position(), 40);
  EXPECT_EQ(append(*restored, {3}), 41);
}

TEST_F(StatesTest, EqualPromptsShareUpToTheCheckpoint) {
  Engine &engine = open();
  Tokens text = textOf(4, 2 * kPage + 30);
  Sequence a = engine.sequence();
  EXPECT_EQ(append(a, text), 2 * kPage + 30);
  Sequence b = engine.sequence();
  EXPECT_EQ(append(b, text), 30);
  // A text that leaves it in its second page has no checkpoint before that.
  Tokens other(text.begin(), text.begin() + kPage + 40);
  other.push_back((other.back() + 1) % DeltaPlan::kVocab);
  Sequence c = engine.sequence();
  EXPECT_EQ(append(c, other), kPage + 41);
  // But it left one behind its first.
  Sequence d = engine.sequence();
  EXPECT_EQ(append(d, other), 41);
}

// Of two slots one is the sequence's: the older checkpoint goes.
TEST_F(StatesTest, TheOldestCheckpointGoesFirst) {
  Engine &engine = open(2);
  Tokens first = textOf(4, kPage + 5), second = textOf(5, kPage + 6);
  {
    Sequence a = engine.sequence();
    append(a, first);
  }
  {
    Sequence b = engine.sequence();
    EXPECT_EQ(append(b, second), kPage + 6);
  }
  {
    Sequence c = engine.sequence();
    EXPECT_EQ(append(c, second), 6);
  }
  Sequence d = engine.sequence();
  EXPECT_EQ(append(d, first), kPage + 5);
}

// With all slots held but the checkpoint's, that becomes the sequence's.
TEST_F(StatesTest, ACheckpointIsUsedUpWhereNothingElseIsLeft) {
  Engine &engine = open(2);
  Tokens text = textOf(4, kPage + 5);
  Sequence a = engine.sequence();
  append(a, text);
  Sequence b = engine.sequence();
  EXPECT_EQ(append(b, text), 5);
}

TEST_F(StatesTest, ACancelledStepLeavesNoState) {
  Engine &engine = open();
  std::atomic<bool> cancel = false;
  Sequence a = engine.sequence();
  append(a, textOf(2, 40));
  a.setCancel(&cancel);
  // In the middle of a prompt, and before one.
  int steps = 0;
  engine.setObserver([&](const StepTimes &) { cancel = ++steps == 2; });
  auto logits = engine.append(a, textOf(3, 60));
  EXPECT_EQ(logits.status().code(), StatusCode::Cancelled);
  engine.setObserver(nullptr);
  cancel = true;
  int32_t position = a.position();
  ASSERT_TRUE(a.rewind(position - 3).isOk());
  EXPECT_EQ(engine.append(a, 1).status().code(), StatusCode::Cancelled);
  EXPECT_EQ(a.position(), position - 3);
  cancel = false;
  append(a, {1});
}

// What looks for the cause runs the step again, healthy sequences' rows too.
TEST_F(StatesTest, ASequenceBesideABrokenOneGoesOn) {
  open();
  const float nan = NAN;
  std::memcpy(
      plan_->builder.weightBytes().data() +
          plan_->builder.plan.weights[plan_->refs["embed"].index]->offset +
          size_t(DeltaPlan::kVocab - 1) * DeltaPlan::kHidden * 4,
      &nan, 4);
  Engine &damaged = reopen();
  Sequence a = damaged.sequence(), b = damaged.sequence();
  append(a, {1, 2, 3});
  append(b, {4, 5, 6});
  const int32_t good = 7, bad = DeltaPlan::kVocab - 1;
  Request requests[] = {{&a, {&good, 1}}, {&b, {&bad, 1}}};
  ASSERT_TRUE(
      damaged
          .step(requests, [](size_t, int32_t,
                             std::span<const float>) { return Status::ok(); })
          .isOk());
  EXPECT_TRUE(requests[0].status.isOk());
  EXPECT_EQ(requests[1].status.code(), StatusCode::InvalidFile);
  EXPECT_EQ(a.position(), 4);
  EXPECT_EQ(b.position(), 3);
  append(a, {8});
  append(b, {9});
}

TEST_F(StatesTest, ASavedSequenceGoesOn) {
  Engine *engine = &open();
  std::string file = folder_.path() + "/text.seq";
  Tokens text = textOf(6, kPage + 9);
  {
    Sequence a = engine->sequence();
    append(a, text);
    ASSERT_TRUE(a.save(file).isOk());
  }
  for (int i = 0; i < 2; ++i) {
    auto b = engine->restore(file);
    ASSERT_TRUE(b.isOk()) << b.status().message();
    EXPECT_EQ(append(*b, {3}), 1);
    engine = nullptr;
    b = Status(StatusCode::Usage, "gone");
    engine = &reopen();
  }
}

using Refusal = moetest::Refusal<DeltaPlan>;

class DeltaProofTest : public testing::TestWithParam<Refusal> {};

TEST_P(DeltaProofTest, Refuses) {
  DeltaPlan plan("ref");
  GetParam().damage(plan);
  moetest::expectRefused(plan.builder, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DeltaProofTest,
    testing::ValuesIn(std::vector<Refusal>{
        {"Taps", "taps = 9, expected 1 to 8", setInt("short_conv", 0, 9)},
        {"Weight", "operand weight is 44 x 3, expected 44 x 2",
         setInt("short_conv", 0, 2)},
        {"KeyHeads", "key_heads divide the heads", setInt("delta_rule", 0, 3)},
        {"Heads", "operand x has 1 rows of 44 elements per token",
         setInt("delta_rule", 1, 8)},
        {"Begin", "the state's parts fit its width",
         setInt("delta_rule", 4, 105)},
        {"Tiled", "tiled = 2", setInt("delta_rule", 5, 2)},
        {"Eps", "eps is not negative",
         [](DeltaPlan &p) { p.decode("delta_rule").floats[0] = -1; }},
        {"Groups", "the groups divide the columns", setInt("regroup", 0, 3)},
        {"Offset", "the parts lie inside a group", setInt("regroup", 1, 9)},
        {"Part", "first = 0", setInt("regroup", 2, 0)},
        {"StateOfRows", "the state has a row for each sequence",
         [](DeltaPlan &p) {
           p.decode("delta_rule").operands[2] =
               fb::Operand(fb::OperandKind::Kv, p.refs.at("kv").index);
         }},
        {"RowsOfState", "the cache has a row per position",
         [](DeltaPlan &p) {
           p.decode("attention").operands[1] =
               fb::Operand(fb::OperandKind::Kv, p.refs.at("state").index);
         }},
        {"StateType", "the state's type is 2",
         [](DeltaPlan &p) { p.builder.plan.kv[1]->type = 2; }},
        {"NoStates", "capacity",
         [](DeltaPlan &p) { p.builder.plan.kv[1]->capacity = 0; }},
    }),
    Refusal::nameOf);

} // namespace
