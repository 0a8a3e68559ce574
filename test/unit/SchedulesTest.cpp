// Random schedules of eight sequences on one engine: pieces of prompts in steps
// with decoding sequences, forks, rewinds, shared prefixes and evictions. Every
// row of logits must be equal to what the sequence computes alone.
#include "kernels/Registry.h"
#include "runtime/engine/Engine.h"
#include "runtime/schema/OpTable.h"
#include "runtime/text/Sampler.h"
#include "test/support/SamplePlan.h"
#include "test/support/SplitPlan.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

using namespace moert;
using moetest::SamplePlan;

namespace {
constexpr int32_t kContext = 2 * moek::kKvPage + 32, kPages = 9;
constexpr size_t kSequences = 8;
constexpr SamplePlan::Room room{kContext, kPages, int32_t(kSequences), 32};

class Schedule {
public:
  Schedule(Engine &engine, Engine &alone, uint64_t seed)
      : engine_(engine), alone_(alone), random_(seed) {
    for (std::vector<int32_t> &book : books_)
      for (size_t i = 0; i < size_t(kContext); ++i)
        book.push_back(token());
    for (size_t i = 0; i < kSequences; ++i)
      texts_.emplace_back(engine_.sequence());
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i)
      step();
    for (Text &text : texts_)
      verify(text);
  }

  int hits = 0, full = 0;

private:
  struct Text {
    explicit Text(Sequence s) : sequence(std::move(s)) {}
    Sequence sequence;
    std::map<int32_t, std::vector<float>> rows; ///< Logits at each position.
    /// Tokens that are to be appended, possibly in pieces.
    std::vector<int32_t> wanted;
  };

  int32_t token() { return int32_t(random_.next() % SamplePlan::kVocab); }
  size_t below(size_t bound) { return size_t(random_.next() % bound); }

  void step() {
    change(texts_[below(kSequences)]);
    std::vector<Request> requests;
    std::vector<Text *> of;
    std::vector<int32_t> before;
    for (Text &text : texts_) {
      if (below(4) == 0)
        continue;
      if (text.wanted.empty() && text.sequence.position() < engine_.context())
        text.wanted.push_back(token());
      if (text.wanted.empty())
        continue;
      requests.push_back(
          {&text.sequence, text.wanted,
           below(4) ? Request::Logits::Last : Request::Logits::All});
      of.push_back(&text);
      before.push_back(text.sequence.position());
    }
    Status status = engine_.step(
        requests, [&](size_t i, int32_t position, std::span<const float> row) {
          of[i]->rows[position].assign(row.begin(), row.end());
          return Status::ok();
        });
    ASSERT_TRUE(status.isOk()) << status.message();
    for (size_t i = 0; i < requests.size(); ++i) {
      size_t taken = of[i]->wanted.size() - requests[i].tokens.size();
      hits += taken > size_t(engine_.ubatch());
      ASSERT_EQ(size_t(of[i]->sequence.position() - before[i]), taken);
      of[i]->wanted.erase(of[i]->wanted.begin(),
                          of[i]->wanted.begin() + int64_t(taken));
      if (requests[i].status.isOk())
        continue;
      ASSERT_EQ(requests[i].status.code(), StatusCode::DoesNotFit);
      ++full;
      cut(*of[i], 0);
    }
  }

  void change(Text &text) {
    switch (below(8)) {
    case 0: { // Begins a new text.
      cut(text, 0);
      const std::vector<int32_t> &book = books_[below(2)];
      text.wanted.assign(book.begin(),
                         book.begin() + int64_t(below(book.size())));
      break;
    }
    case 1:
      cut(text, int32_t(below(size_t(text.sequence.position()) + 1)));
      break;
    case 2: {
      Text &other = texts_[below(kSequences)];
      if (&other == &text)
        return;
      cut(text, 0);
      text.sequence = other.sequence.fork();
      text.rows = other.rows;
      break;
    }
    default:
      break;
    }
  }

  void cut(Text &text, int32_t position) {
    verify(text);
    ASSERT_TRUE(text.sequence.rewind(position).isOk());
    text.rows.erase(text.rows.lower_bound(position), text.rows.end());
    text.wanted.clear();
  }

  /// Compares the rows with those of the same tokens computed alone.
  void verify(Text &text) {
    if (text.rows.empty())
      return;
    Sequence alone = alone_.sequence({.sharePrefixes = false});
    Status status = alone_.appendAll(
        alone, text.sequence.tokens(),
        [&](size_t, int32_t position, std::span<const float> expected) {
          auto row = text.rows.find(position);
          if (row == text.rows.end())
            return Status::ok();
          float scale = 0, worst = 0;
          for (size_t i = 0; i < expected.size(); ++i) {
            scale = std::max(scale, std::abs(expected[i]));
            worst = std::max(worst, std::abs(expected[i] - row->second[i]));
          }
          if (worst > 1e-5f * scale)
            return Status(
                StatusCode::Internal,
                fmt::format("position {}: {} of {}", position, worst, scale));
          return Status::ok();
        });
    ASSERT_TRUE(status.isOk()) << status.message();
    text.rows.clear();
  }

  Engine &engine_, &alone_;
  SplitMix64 random_;
  std::vector<int32_t> books_[2];
  std::vector<Text> texts_;
};

/// How often schedules shared prefixes and filled the pool.
struct Met {
  int hits = 0, full = 0;
};

/// Runs seeds 1 to `last` on `plan`, and compares with each sequence alone on
/// one device.
Met runSchedules(SamplePlan &plan, uint64_t last) {
  moetest::TempDir folder, other;
  EngineOptions options;
  options.threads = 1;
  Met met;
  auto engine = Engine::open(plan.builder.write(folder), options);
  auto alone = Engine::open(
      SamplePlan(plan.builder.isa(), room).builder.write(other), options);
  EXPECT_TRUE(engine.isOk()) << engine.status().message();
  EXPECT_TRUE(alone.isOk()) << alone.status().message();
  if (!engine || !alone)
    return met;
  for (uint64_t seed = 1; seed <= last && !::testing::Test::HasFatalFailure();
       ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Schedule schedule(**engine, **alone, seed);
    schedule.run(40);
    met.hits += schedule.hits;
    met.full += schedule.full;
  }
  EXPECT_EQ((*engine)->freePages(), (*engine)->pages());
  return met;
}

std::string isa() {
  return moek::hostSupports(moek::Isa::Avx2) ? "avx2" : "ref";
}

TEST(SchedulesTest, EverySequenceComputesTheSameAsAlone) {
  SamplePlan plan(isa(), room);
  Met met = runSchedules(plan, 300);
  // Sharing and a full pool did occur.
  EXPECT_GT(met.hits, 100);
  EXPECT_GT(met.full, 10);
}

// The caches of both devices have the same pages.
TEST(SchedulesTest, OnTwoDevicesToo) {
  SamplePlan plan(isa(), room);
  moetest::splitPlan(plan.builder.plan, [](const auto &, const auto &i) {
    return uint32_t(findOp(i.op)->name.find("attention") != std::string::npos ||
                    findOp(i.op)->name == "mla_latent");
  });
  runSchedules(plan, 30);
}

} // namespace
