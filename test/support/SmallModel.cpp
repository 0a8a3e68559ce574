#include "test/support/SmallModel.h"

#include "runtime/engine/Engine.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <stdexcept>

namespace moetest {

Tokens tokensOf(uint32_t seed, int32_t count, int32_t vocab) {
  Tokens tokens;
  for (int32_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    tokens.push_back(int32_t(seed >> 8) % vocab);
  }
  return tokens;
}

SmallModel::SmallModel(int32_t hidden, int32_t vocab, int32_t context,
                       const std::string &isa, double eps, double center)
    : builder(hidden, vocab, context, isa), hidden_(hidden), vocab_(vocab),
      eps_(eps), center_(center) {
  weight("embed", {1, vocab, hidden});
  weight("norm", {1, 1, hidden});
}

fb::InstructionT &SmallModel::decode(const std::string &op) {
  for (auto &one : builder.plan.phases[0]->instructions)
    if (moert::findOp(one->op)->name == op)
      return *one;
  throw std::logic_error(op);
}

void SmallModel::weight(const std::string &name,
                        const std::vector<int64_t> &shape, double center) {
  std::vector<float> &x = numbers_[name];
  for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    x.push_back(float(center + double(state_ >> 11) * 0x1p-53 - 0.5));
  }
  refs[name] = builder.weight(name, shape, x);
}

void SmallModel::head() {
  weight("out", {1, vocab_, hidden_});
  PhaseBuilder p = builder.phase("logits", 1, 3);
  Ref h = p.buffer("h", hidden_), logits = p.buffer("logits", vocab_);
  p.input(h);
  p.output(logits);
  p.emit("linear", {h, refs["out"], Ref(), logits}, {0});
}

void SmallModel::add(Values &to, const Values &x) {
  for (size_t i = 0; i < to.size(); ++i)
    to[i] += x[i];
}

double SmallModel::sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

SmallModel::Values SmallModel::embedded(int32_t token) const {
  Values h;
  for (int64_t i = 0; i < hidden_; ++i)
    h.push_back(at("embed", int64_t(token) * hidden_ + i));
  return h;
}

SmallModel::Values SmallModel::product(const std::string &name, const Values &x,
                                       int64_t index) const {
  const fb::WeightT &w = *builder.plan.weights[refs.at(name).index];
  Values out(size_t(w.rows), 0);
  for (int64_t r = 0; r < w.rows; ++r)
    for (int64_t c = 0; c < w.cols; ++c)
      out[size_t(r)] +=
          at(name, (index * w.rows + r) * w.cols + c) * x[size_t(c)];
  return out;
}

SmallModel::Values SmallModel::norm(Values x) const {
  double squares = 0;
  for (double value : x)
    squares += value * value;
  for (size_t i = 0; i < x.size(); ++i)
    x[i] *= at("norm", int64_t(i)) / std::sqrt(squares / hidden_ + eps_);
  return x;
}

void expectRow(std::span<const float> actual,
               const SmallModel::Values &expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double scale = 0;
  for (double value : expected)
    scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-5 * scale) << "token " << i;
}

void expectRefused(PlanBuilder &plan, std::string_view message) {
  TempDir folder;
  moert::EngineOptions options;
  options.threads = 1;
  auto engine = moert::Engine::open(plan.write(folder), options);
  ASSERT_FALSE(engine.isOk());
  EXPECT_NE(engine.status().message().find(message), std::string::npos)
      << engine.status().message();
}

} // namespace moetest
