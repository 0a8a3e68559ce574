// Clients take turns; the effect on prompts and chunks.
#include "runtime/serve/FairShare.h"

#include "runtime/serve/PrefillChunk.h"
#include "runtime/serve/PrefillShares.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>

using namespace moert;

namespace {
using Names = std::vector<std::string_view>;

TEST(FairShare, EachGetsTheSameWhateverTheTurnsCost) {
  FairShare fair(64);
  const Names names = {"a", "b", "c"};
  const int64_t costs[] = {7, 400, 90};
  std::map<std::string_view, int64_t> got;
  for (int i = 0; i < 3000; ++i) {
    size_t next = fair.next(names);
    fair.charge(names[next], costs[next]);
    got[names[next]] += costs[next];
  }
  for (std::string_view name : names)
    EXPECT_NEAR(double(got[name]), double(got["a"]), 64 + 400) << name;
}

TEST(FairShare, NobodySavesForLater) {
  FairShare fair(64);
  fair.charge("late", 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(fair.next({"early"}), 0u);
    fair.charge("early", 100);
  }
  // The client that was idle does not get a hundred turns now.
  std::map<size_t, int> turns;
  for (int i = 0; i < 20; ++i) {
    size_t next = fair.next({"early", "late"});
    ++turns[next];
    fair.charge(next == 0 ? "early" : "late", 100);
  }
  EXPECT_EQ(turns[0], 10);
}

TEST(FairShare, DebtsOutliveAPause) {
  FairShare fair(10);
  fair.charge("a", 1000);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(fair.next({"b"}), 0u);
    fair.charge("b", 10);
  }
  for (int i = 0; i < 50; ++i) {
    size_t next = fair.next({"a", "b"});
    ASSERT_EQ(next, 1u) << i;
    fair.charge("b", 10);
  }
}

TEST(FairShare, ClientsAreForgotten) {
  FairShare fair(10);
  for (int i = 0; i < 1000; ++i) {
    std::string name = "client " + std::to_string(i);
    fair.next({name});
    fair.charge(name, 25);
  }
  EXPECT_LT(fair.size(), 10u);
}

std::vector<int32_t> divide(const std::vector<PendingPrompt> &prompts,
                            int32_t tokens, FairShare &fair) {
  std::vector<int32_t> shares = dividePrefill(prompts, tokens, tokens, fair);
  EXPECT_EQ(shares.size(), prompts.size());
  EXPECT_LE(std::accumulate(shares.begin(), shares.end(), 0), tokens);
  return shares;
}

TEST(DividePrefill, ClientsGetEqualParts) {
  FairShare fair(64);
  int32_t a = 0, b = 0;
  for (int i = 0; i < 10; ++i) {
    auto shares = divide(
        {{"a", 0, 1, 9000}, {"b", 0, 2, 9000}, {"b", 0, 3, 9000}}, 256, fair);
    a += shares[0];
    b += shares[1] + shares[2];
  }
  EXPECT_EQ(a + b, 2560);
  EXPECT_NEAR(a, b, 64);
}

TEST(DividePrefill, TheShortestAndTheEarliestTakeTurns) {
  FairShare fair(64);
  auto shares =
      divide({{"", 0, 1, 9000}, {"", 0, 2, 5000}, {"", 0, 3, 100}}, 256, fair);
  EXPECT_EQ(shares, (std::vector<int32_t>{128, 28, 100}));
  // A higher priority takes all that it can use.
  shares =
      divide({{"", 0, 1, 9000}, {"", 5, 2, 200}, {"", 0, 3, 10}}, 256, fair);
  EXPECT_EQ(shares[1], 200);
}

TEST(DividePrefill, NoPromptIsLeftWithAShortEnd) {
  FairShare fair(64);
  EXPECT_EQ(divide({{"", 0, 1, 257}}, 256, fair)[0], 257 - kPromptEnd);
  EXPECT_EQ(divide({{"", 0, 1, 256}}, 256, fair)[0], 256);
  EXPECT_EQ(divide({{"", 0, 1, 2}}, 1, fair)[0], 1);
  EXPECT_TRUE(divide({}, 256, fair).empty());
  // Where a step may have more, the rest comes along.
  EXPECT_EQ(dividePrefill({{"", 0, 1, 70}}, 64, 512, fair)[0], 70);
  EXPECT_EQ(dividePrefill({{"", 0, 1, 80}}, 64, 512, fair)[0], 64);
}

TEST(DividePrefill, RandomPromptsEndTogether) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    FairShare fair(64);
    const int32_t most = 32 + int32_t(random() % 500);
    std::vector<PendingPrompt> prompts;
    for (uint32_t i = 0; i < 1 + random() % 5; ++i)
      prompts.push_back({i % 2 ? "a" : "b", 0, i, 1 + int32_t(random() % 900)});
    std::vector<int32_t> whole;
    for (const PendingPrompt &prompt : prompts)
      whole.push_back(prompt.left);
    while (!prompts.empty()) {
      const int32_t tokens = 16 + int32_t(random() % uint32_t(most - 15));
      auto shares = dividePrefill(prompts, tokens, most, fair);
      ASSERT_GT(std::accumulate(shares.begin(), shares.end(), 0), 0);
      ASSERT_LE(std::accumulate(shares.begin(), shares.end(), 0), most);
      for (size_t i = prompts.size(); i-- > 0;) {
        prompts[i].left -= shares[i];
        if (prompts[i].left == 0)
          prompts.erase(prompts.begin() + ptrdiff_t(i));
        else
          EXPECT_TRUE(prompts[i].left >= std::min(kPromptEnd, whole[i]) ||
                      shares[i] < kPromptEnd)
              << prompts[i].left;
      }
      whole.resize(prompts.size());
      for (size_t i = 0; i < prompts.size(); ++i)
        whole[i] = prompts[i].left;
    }
  }
}

TEST(PrefillChunk, FindsTheChunkThatTakesSoManySteps) {
  // A step takes 10 ms, and each prompt token 1 ms more: four steps are 30.
  PrefillChunk chunk(0, 512, 4);
  EXPECT_EQ(chunk.tokens(false, 0), 512) << "nobody waits";
  EXPECT_EQ(chunk.tokens(true, 0), PrefillChunk::kFirst);
  for (int i = 0; i < 5; ++i)
    chunk.observe(0, 0, 3, 0.010);
  for (int i = 0; i < 20; ++i) {
    int32_t tokens = chunk.tokens(true, 0);
    chunk.observe(tokens, 0, 3, 0.010 + 0.001 * tokens);
  }
  EXPECT_NEAR(chunk.tokens(true, 0), 30, 1);
  // If prompts cost hardly anything, a step takes a whole ubatch.
  for (int i = 0; i < 20; ++i)
    chunk.observe(chunk.tokens(true, 0), 0, 3, 0.0101);
  EXPECT_EQ(chunk.tokens(true, 0), 512);
  // Short last parts of prompts are not measured.
  for (int i = 0; i < 20; ++i)
    chunk.observe(2, 0, 3, 0.011);
  EXPECT_EQ(chunk.tokens(true, 0), 512);
  for (int i = 0; i < 20; ++i)
    chunk.observe(chunk.tokens(true, 0), 0, 3, 10);
  EXPECT_EQ(chunk.tokens(true, 0), PrefillChunk::kLeast);
}

/// Seconds of a step with prompt tokens at a position, on a machine where a
/// token without any before it takes `token`, and twice as long at `doubles`.
struct StepTimes {
  double plain, token;
  int32_t doubles;

  double of(int32_t tokens, int32_t position) const {
    return plain + token * tokens * (1 + double(position) / doubles);
  }
};

TEST(PrefillChunk, NoStepIsLongWhereverItsPromptsAre) {
  std::mt19937 random(5);
  auto draw = [&](double from, double to) {
    return std::exp(
        std::uniform_real_distribution<>(std::log(from), std::log(to))(random));
  };
  for (int machine = 0; machine < 50; ++machine) {
    const StepTimes times{draw(0.001, 0.8), draw(1e-5, 4e-3),
                          int32_t(draw(2'000, 50'000))};
    PrefillChunk chunk(0, 512, 4);
    chunk.observe(0, 0, 2, times.plain);
    const double most = std::min(
        4 * times.plain,
        times.plain + std::max(PrefillChunk::kMostSeconds, times.plain));
    for (int prompt = 0; prompt < 20; ++prompt) {
      // A new prompt, or the end of one whose beginning is in the cache.
      int32_t position = prompt % 3 == 0 ? 0 : int32_t(draw(1, 30'000));
      const int32_t end = position + int32_t(draw(200, 30'000));
      while (position < end) {
        const int32_t tokens =
            std::min(chunk.tokens(true, position), end - position);
        const double seconds = times.of(tokens, position);
        const bool isLeast = tokens <= PrefillChunk::kLeast;
        // The first chunks of a machine are a guess.
        if (prompt > 3 && !isLeast) {
          ASSERT_LE(seconds, 1.3 * most) << "machine " << machine << ", "
                                         << tokens << " tokens at " << position;
        }
        chunk.observe(tokens, position, 2, seconds);
        chunk.observe(0, 0, 2, times.plain);
        position += tokens;
      }
    }
  }
}

TEST(PrefillChunk, IsWhatWasAskedFor) {
  PrefillChunk chunk(100, 64, 4);
  EXPECT_EQ(chunk.tokens(true, 0), 64);
  EXPECT_EQ(PrefillChunk(20, 64, 4).tokens(false, 0), 20);
}

} // namespace
