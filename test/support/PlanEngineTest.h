//===- PlanEngineTest.h - Fixture for engines of plans ----------*- C++ -*-===//
//
// Common code of tests that compare plans with float64: an engine with such a
// plan, whose logits are checked whenever it computes some, and damaged plans
// that must be refused.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_PLANENGINETEST_H
#define MOE_TEST_SUPPORT_PLANENGINETEST_H

#include "kernels/Registry.h"
#include "runtime/engine/Engine.h"
#include "test/support/SmallModel.h"

#include <functional>
#include <gtest/gtest.h>
#include <optional>

namespace moetest {

/// `PlanT` has a builder, a kVocab, and a reference() that returns the logits
/// after each of some tokens in float64; it is constructed from an instruction
/// set and its own arguments.
template <typename PlanT> class PlanEngineTest : public testing::Test {
protected:
  static Tokens textOf(uint32_t seed, int32_t count) {
    return tokensOf(seed, count, PlanT::kVocab);
  }
  static const char *bestIsa() {
    return moek::hostSupports(moek::Isa::Avx2) ? "avx2" : "ref";
  }

  template <typename... Arguments>
  moert::Engine &openOn(const std::string &isa, const Arguments &...arguments) {
    plan_.emplace(isa, arguments...);
    return reopen();
  }
  moert::Engine &reopen() {
    moert::EngineOptions options;
    options.threads = 2;
    path_ = plan_->builder.write(folder_);
    auto engine = moert::Engine::open(path_, options);
    EXPECT_TRUE(engine.isOk()) << engine.status().message();
    engine_ = *std::move(engine);
    countEvaluated();
    return *engine_;
  }
  /// Counts tokens that pass through layers (not the head), and their steps.
  void countEvaluated() {
    engine_->setObserver([&](const moert::PhaseRun &times) {
      if (times.phase != moert::PhaseKind::Logits) {
        evaluated_ += times.step.tokens;
        ++steps_;
      }
    });
  }

  /// Expects that these are the logits after `tokens`.
  void expectLogits(std::span<const float> actual,
                    std::span<const int32_t> tokens) {
    expectRow(actual, plan_->reference({tokens.begin(), tokens.end()}).back());
  }
  /// Appends and checks the logits; returns how many tokens were evaluated.
  int append(moert::Sequence &sequence, std::span<const int32_t> tokens) {
    evaluated_ = steps_ = 0;
    auto logits = engine_->append(sequence, tokens);
    EXPECT_TRUE(logits.isOk()) << logits.status().message();
    if (logits.isOk())
      expectLogits(*logits, sequence.tokens());
    return evaluated_;
  }
  int append(moert::Sequence &sequence, std::initializer_list<int32_t> tokens) {
    return append(sequence, std::span(tokens.begin(), tokens.size()));
  }

  /// Checks logits after each token, one by one and as a prompt, on every
  /// instruction set that this CPU has.
  void expectFloat64(const Tokens &tokens) {
    for (const char *isa : {"ref", "avx2", "avx512"}) {
      if (!moek::hostSupports(*moek::isaFromName(isa)))
        continue;
      SCOPED_TRACE(isa);
      moert::Engine &engine = openOn(isa);
      auto expected = plan_->reference(tokens);
      moert::SequenceOptions alone{/*sharePrefixes=*/false};
      {
        moert::Sequence one = engine.sequence(alone);
        for (size_t t = 0; t < tokens.size(); ++t) {
          SCOPED_TRACE(t);
          auto logits = engine.append(one, tokens[t]);
          ASSERT_TRUE(logits.isOk()) << logits.status().message();
          expectRow(*logits, expected[t]);
        }
      }
      moert::Sequence all = engine.sequence(alone);
      size_t rows = 0;
      moert::Status status = engine.appendAll(
          all, tokens,
          [&](size_t, int32_t position, std::span<const float> logits) {
            SCOPED_TRACE(position);
            ++rows;
            expectRow(logits, expected[size_t(position)]);
            return moert::Status::ok();
          });
      EXPECT_TRUE(status.isOk()) << status.message();
      EXPECT_EQ(rows, tokens.size());
    }
  }
  /// Continues sequences with texts of these lengths together, one token of
  /// each per step.
  void expectStepsOfMany(std::initializer_list<int32_t> lengths) {
    std::vector<moert::Sequence> sequences;
    for (int32_t length : lengths) {
      sequences.push_back(engine_->sequence());
      append(sequences.back(), textOf(uint32_t(sequences.size()), length));
    }
    for (int32_t token : {7, 1, 30}) {
      std::vector<moert::Request> requests;
      for (moert::Sequence &sequence : sequences)
        requests.push_back({&sequence, {&token, 1}});
      moert::Status status = engine_->step(
          requests, [&](size_t i, int32_t, std::span<const float> row) {
            expectLogits(row, sequences[i].tokens());
            return moert::Status::ok();
          });
      ASSERT_TRUE(status.isOk()) << status.message();
    }
  }

  TempDir folder_;
  std::optional<PlanT> plan_;
  std::string path_; ///< Path of the plan file.
  std::unique_ptr<moert::Engine> engine_;
  int evaluated_ = 0, steps_ = 0;
};

/// A damage to a plan, and the message with which an engine refuses it.
template <typename PlanT> struct Refusal {
  const char *name, *message;
  std::function<void(PlanT &)> damage;

  friend void PrintTo(const Refusal &refusal, std::ostream *out) {
    *out << refusal.name;
  }
  static std::string nameOf(const testing::TestParamInfo<Refusal> &info) {
    return info.param.name;
  }
};

/// Sets integer parameter `index` of decode's first `op`.
inline auto setInt(const char *op, size_t index, int64_t value) {
  return [=](auto &plan) { plan.decode(op).ints[index] = value; };
}

} // namespace moetest

#endif // MOE_TEST_SUPPORT_PLANENGINETEST_H
