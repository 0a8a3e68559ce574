//===- FlashAttentionTest.cpp - Attention of prompts on GPUs --------------===//
//
// GroupedAttentionTest.cpp has prompts of one sequence near the beginning. Here
// several sequences have pages, and rows are far enough into a text for keys to
// be divided into parts (kernels/cuda/FlashParts.cuh).
//
//===----------------------------------------------------------------------===//

#include "kernels/KvCache.h"
#include "test/kernels/AttentionModel.h"
#include "test/kernels/GroupedAttention.h"
#include "test/kernels/Phase.h"
#include "test/kernels/cuda/OnGpu.h"

#include <cstring>

using namespace moek;
using namespace moek::test;

namespace {

constexpr KvType kFlashTypes[] = {KvType::F16, KvType::BF16, KvType::Q8_0};

struct PromptShape {
  int32_t heads, kvHeads, key, value;
  /// For each sequence: its rows in the step, and its rows in the cache before.
  std::vector<std::pair<int32_t, int32_t>> sequences;
  int32_t window = 0;
  float softcap = 0, sinks = 0;
  /// Between rows of queries and results, besides their columns. With odd ones,
  /// rows are not aligned to two columns.
  int64_t gap = 2;
};

struct Prompts {
  Prompts(KvType type, const PromptShape &s, uint32_t seed)
      : s(s), type(type), random(seed), sinks(1, s.heads) {
    int64_t pagesNeeded = 0;
    for (auto [count, position] : s.sequences) {
      tokens += count;
      pagesNeeded += (position + count + kKvPage - 1) / kKvPage;
    }
    // Pages are in descending order, so that none is where it would be without
    // a page table.
    int64_t next = pagesNeeded, capacity = pagesNeeded * kKvPage;
    cache = std::make_unique<Cache>(type, gqaKvWidth(s.kvHeads, s.key, s.value),
                                    capacity, capacity, random,
                                    /*gap=*/16);
    q = std::make_unique<Matrix<float>>(tokens, s.heads * s.key, s.gap);
    q->fill(random);
    for (int64_t h = 0; h < s.heads; ++h)
      sinks.at(0, h) = (h % 3 == 1 ? -1 : 1) * s.sinks;
    int32_t begin = 0;
    for (auto [count, position] : s.sequences) {
      auto &list = pages.emplace_back();
      for (int64_t p = 0; p < position + count; p += kKvPage)
        list.push_back(int32_t(--next));
      // Nothing may have been written after the last row.
      for (int64_t p = position + count; p % kKvPage; ++p)
        cache->set(row(list, p), 0, NAN);
      steps.push_back({begin, count, position, list.data()});
      begin += count;
    }
    while (sms < 40 && !hasParts())
      ++sms;
  }

  static int64_t row(const std::vector<int32_t> &list, int64_t position) {
    return list[size_t(position / kKvPage)] * kKvPage + position % kKvPage;
  }

  AttentionArgs args(Matrix<float> &out) const {
    AttentionArgs a{};
    a.q = q->data(), a.qStride = q->stride;
    a.kv = cache->view;
    a.sinks = s.sinks != 0 ? sinks.data() : nullptr;
    a.out = out.data(), a.outStride = out.stride;
    a.heads = s.heads, a.kvHeads = s.kvHeads;
    a.key = s.key, a.value = s.value;
    a.splits = 1, a.window = s.window;
    a.scale = 0.2f, a.softcap = s.softcap;
    return a;
  }
  /// Runs the step, or one of the same phase that has some of its rows.
  void run(Matrix<float> &out, const std::vector<SequenceRows> &rows) const {
    Step step{rows.back().begin + rows.back().count, 0, rows.data(),
              int32_t(rows.size())};
    AttentionArgs a = args(out);
    phase() = {int32_t(tokens), int32_t(steps.size())};
    runOnGpu(OpCode::Attention, &a, step, {}, 0, sms);
    phase() = {};
  }
  bool hasParts() const {
    return launches()[0].kernel.entry.find("_parts") != std::string::npos;
  }
  /// On a GPU of one multiprocessor, where fewer blocks are no loss, an H100
  /// has 256 queries in a block (FlashTurns.cuh). Others have what they have.
  void onOneMultiprocessor() {
    sms = 1;
    bool isTall = GpuTest::get().gpu->arch() == 90 && type != KvType::Q8_0 &&
                  s.value % 64 == 0;
    EXPECT_EQ(launches()[0].kernel.entry.starts_with("flash_warpgroup256_"),
              isTall);
  }
  std::vector<cuda::Launch> launches() const {
    Matrix<float> out(tokens, s.heads * s.value, s.gap);
    AttentionArgs a = args(out);
    a.kv.data = nullptr; // Null counts as aligned.
    Step step{int32_t(tokens), 0, steps.data(), int32_t(steps.size())};
    cuda::LaunchContext context = contextOf(*GpuTest::get().gpu, step);
    context.multiprocessors = sms;
    return launchesOf(OpCode::Attention, &a, context);
  }

  Matrix<float> results() const { return {tokens, s.heads * s.value, s.gap}; }

  void check(const Matrix<float> &out) const {
    double error = type == KvType::F16 ? 0x1p-11 : 0x1p-8;
    int64_t group = s.heads / s.kvHeads;
    std::vector<Attention> attentions;
    std::vector<size_t> owners;
    for (size_t i = 0; i < steps.size(); ++i)
      for (int32_t t = 0; t < steps[i].count; ++t)
        for (int64_t h = 0; h < s.heads; ++h) {
          const float *head = q->row(steps[i].begin + t) + h * s.key;
          int64_t column = keyColumn(h / group, s.key);
          AttentionRules rules;
          rules.begin = firstSeen(steps[i].position + t);
          rules.cap = s.softcap;
          if (s.sinks != 0)
            rules.sink = sinks.at(0, h);
          attentions.emplace_back(
              steps[i].position + t + 1, 0.2, s.key,
              [&](int64_t k) {
                Sum sum;
                for (int64_t c = 0; c < s.key; ++c)
                  sum.add(double(head[c]) *
                          cache->at(row(pages[i], k), column + c));
                sum.error = error * sum.magnitude;
                return sum;
              },
              rules);
          owners.push_back(i);
        }
    expectClose(out, [&](int64_t t, int64_t c) {
      int64_t head = c / s.value;
      auto n = size_t(t * s.heads + head);
      int64_t column =
          valueColumn(head / group, s.kvHeads, s.key, s.value) + c % s.value;
      return attentions[n].output(0, [&](int64_t k) {
        Sum v;
        if (attentions[n].weights[size_t(k)] == 0)
          return v;
        v.add(cache->at(row(pages[owners[n]], k), column), 0);
        v.error = error * std::fabs(v.value);
        return v;
      });
    });
  }

  int64_t firstSeen(int64_t position) const {
    return s.window ? std::max<int64_t>(0, position + 1 - s.window) : 0;
  }

  PromptShape s;
  KvType type;
  Random random;
  int64_t tokens = 0;
  Matrix<float> sinks;
  std::unique_ptr<Cache> cache;
  std::unique_ptr<Matrix<float>> q;
  std::vector<std::vector<int32_t>> pages;
  std::vector<SequenceRows> steps;
  /// Multiprocessors of a GPU on which parts are worthwhile, if there is one.
  int sms = 1;
};

class FlashAttentionTest : public testing::TestWithParam<KvType> {
protected:
  void SetUp() override {
    if (GpuTest::get().gpu->arch() < 80)
      GTEST_SKIP() << "sm_75 has no mma for it";
  }
};

void checkUnderEverySchedule(const Prompts &prompts) {
  Matrix<float> out = prompts.results();
  std::vector<uint8_t> first;
  underEverySchedule([&] {
    out.reset();
    prompts.run(out, prompts.steps);
    if (first.empty())
      first = out.bytes();
    EXPECT_EQ(out.bytes(), first);
  });
  out.expectOnlyPayloadWritten();
  prompts.check(out);
}

// Rows before 2048 are not divided. One sequence passes that, one 3072, where
// parts become longer; one is short.
TEST_P(FlashAttentionTest, KeysInParts) {
  Prompts prompts(GetParam(), {4, 2, 64, 64, {{50, 2020}, {5, 40}, {30, 3060}}},
                  1);
  ASSERT_TRUE(prompts.hasParts());
  checkUnderEverySchedule(prompts);
}

TEST_P(FlashAttentionTest, KeysInPartsOfOddShapes) {
  Prompts sinks(GetParam(), {6, 1, 80, 96, {{41, 2330}}, 0, 0, 1.5f, 3}, 2);
  ASSERT_TRUE(sinks.hasParts());
  checkUnderEverySchedule(sinks);
  Prompts capped(GetParam(), {6, 2, 128, 128, {{44, 2200}}, 0, 4.0f, 0, 1}, 3);
  ASSERT_TRUE(capped.hasParts());
  checkUnderEverySchedule(capped);
}

// With every head in parts there would be more tiles than counters.
TEST_P(FlashAttentionTest, EveryDividedTileHasACounter) {
  Prompts prompts(GetParam(), {32, 32, 128, 128, {{1, 4096}}}, 8);
  cuda::LaunchContext context;
  context.arch = 86;
  context.maxTokens = 2048;
  context.maxPositions = 8192;
  bool hasParts = false;
  for (int sms : {100, 170, 700, 2100}) {
    context.multiprocessors = sms;
    Matrix<float> out = prompts.results();
    AttentionArgs args = prompts.args(out);
    args.kv.data = nullptr; // Null counts as aligned.
    cuda::Launch launch = launchesOf(OpCode::Attention, &args, context)[0];
    if (launch.kernel.entry.find("_parts") == std::string::npos)
      continue;
    hasParts = true;
    cuda::AttentionPartsArgs parts;
    ASSERT_EQ(launch.argBytes, sizeof(parts));
    std::memcpy(&parts, launch.args.data(), sizeof(parts));
    EXPECT_LE((parts.kvHeads - parts.wholeHeads) * parts.tiles, cuda::kTickets)
        << sms << " multiprocessors";
  }
  EXPECT_TRUE(hasParts);
}

// A step's tiles of keys are used several times, in any order of warps.
TEST_P(FlashAttentionTest, ManyTilesOfKeys) {
  for (int32_t window : {0, 150})
    checkUnderEverySchedule(
        Prompts(GetParam(),
                {4, 1, 128, 128, {{37, 700}, {9, 0}, {40, 130}}, window}, 4));
}

// A block's warpgroups have 128 queries each, of which some may be missing, of
// keys and values of one or two times 64 columns, before and after a window.
TEST_P(FlashAttentionTest, ManyQueriesOfABlock) {
  for (const PromptShape &shape : {
           PromptShape{4, 1, 128, 128, {{37, 700}, {79, 30}, {40, 130}}},
           PromptShape{6, 2, 128, 64, {{50, 301}}, 150, 0, 2.0f},
           PromptShape{5, 1, 80, 128, {{60, 100}}, 0, 3.0f, 0, 1},
           PromptShape{2, 1, 48, 64, {{140, 0}}, 70},
       }) {
    Prompts prompts(GetParam(), shape, 7);
    prompts.onOneMultiprocessor();
    checkUnderEverySchedule(prompts);
  }
}

// A row's result has the same bits wherever the row is in a step, and whatever
// other rows the step has.
TEST_P(FlashAttentionTest, SameBitsAnywhereInAStep) {
  for (auto [position, window, isTall] : {std::tuple{2025, 0, false},
                                          {3050, 0, false},
                                          {333, 0, false},
                                          {411, 90, false},
                                          {333, 0, true},
                                          {411, 90, true}}) {
    SCOPED_TRACE(testing::Message()
                 << "position " << position << ", window " << window);
    Prompts prompts(GetParam(),
                    {isTall ? 8 : 4, 2, 64, 64, {{60, position}}, window}, 5);
    if (isTall)
      prompts.onOneMultiprocessor();
    Matrix<float> whole = prompts.results();
    prompts.run(whole, prompts.steps);
    Matrix<float> halves = prompts.results();
    const int *pages = prompts.pages[0].data();
    for (auto [begin, count] : {std::pair{0, 23}, {23, 37}}) {
      // The queries of these rows are at the beginning of the step.
      Matrix<float> own = prompts.results();
      Prompts part(prompts.type, prompts.s, 5);
      part.sms = prompts.sms;
      for (int32_t t = 0; t < count; ++t)
        std::copy_n(prompts.q->row(begin + t), prompts.q->cols, part.q->row(t));
      part.run(own, {{0, count, position + begin, pages}});
      for (int32_t t = 0; t < count; ++t)
        std::copy_n(own.row(t), own.cols, halves.row(begin + t));
    }
    EXPECT_EQ(halves.bytes(), whole.bytes());
  }
}

// A value that is not finite, in a divided row's part, or the last tile.
TEST_P(FlashAttentionTest, NaNStaysWhereItIsSeen) {
  // 2304 begins a tile, whatever the number of its keys.
  for (auto [position, nan, isTall] : {std::tuple{2200, 700, false},
                                       {2200, 2220, false},
                                       {2200, 2241, false},
                                       {2280, 2290, false},
                                       {200, 70, true},
                                       {200, 221, true},
                                       {280, 290, true}}) {
    Prompts prompts(GetParam(), {isTall ? 8 : 4, 2, 64, 64, {{60, position}}},
                    6);
    if (isTall)
      prompts.onOneMultiprocessor();
    prompts.cache->set(Prompts::row(prompts.pages[0], nan),
                       valueColumn(1, 2, 64, 64), NAN);
    Matrix<float> out = prompts.results();
    prompts.run(out, prompts.steps);
    for (int64_t t = 0; t < prompts.tokens; ++t) {
      bool isSeen = position + t >= nan;
      EXPECT_EQ(std::isnan(out.at(t, prompts.s.heads / 2 * 64)), isSeen) << t;
      EXPECT_FALSE(std::isnan(out.at(t, 0))) << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Caches, FlashAttentionTest,
                         testing::ValuesIn(kFlashTypes), [](const auto &info) {
                           return std::string(kvTypeName(info.param));
                         });

} // namespace
