// Several sequences on one engine: what they share, what they do not share, and
// how they are saved in files.
#include "test/support/PlanEngineTest.h"
#include "test/support/SamplePlan.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;
using Logits = Request::Logits;

namespace {
constexpr int32_t kPage = moek::kKvPage;

class SequencesTest : public moetest::PlanEngineTest<SamplePlan> {
protected:
  Engine &open(int32_t context = 3 * kPage, int32_t pages = 8,
               int32_t sequences = 4) {
    return openOn(bestIsa(), SamplePlan::Room{context, pages, sequences});
  }
  std::string readFile(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(SequencesTest, RowsOfAStepAreOfManySequences) {
  Engine &engine = open();
  EXPECT_EQ(engine.batch(), 4);
  std::vector<std::string> phases;
  engine.setObserver([&](const PhaseRun &times) {
    phases.push_back(
        fmt::format("{} {}", nameOf(times.phase), times.step.tokens));
  });
  std::vector<Sequence> sequences;
  std::vector<std::vector<int32_t>> texts;
  for (uint32_t i = 0; i < 5; ++i) {
    sequences.push_back(engine.sequence());
    texts.push_back(textOf(i, i == 4 ? 7 : 1 + int32_t(i)));
    append(sequences[i], std::span(texts[i]).first(texts[i].size() - 1 + !i));
    texts[i].push_back(int32_t(i));
  }
  // The last sequence has more tokens than a prefill step takes together with
  // another sequence.
  std::vector<int32_t> more = {1, 2, 3, 4, 5, 6};
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 4; ++i)
    requests.push_back({&sequences[i], std::span(texts[i]).last(1)});
  for (uint32_t i = 1; i < 4; ++i)
    append(sequences[i], std::span(texts[i]).last(2).first(1));
  requests.push_back({&sequences[4], more});
  phases.clear();
  std::vector<size_t> seen;
  Status status = engine.step(
      requests, [&](size_t i, int32_t position, std::span<const float> row) {
        seen.push_back(i);
        EXPECT_EQ(position + 1, sequences[i].position());
        expectLogits(row, sequences[i].tokens());
        return Status::ok();
      });
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(seen, (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(phases, (std::vector<std::string>{"batch 4", "logits 3", "logits 1",
                                              "prefill 5"}));
  EXPECT_EQ(requests[4].tokens.size(), 1u);
  EXPECT_FALSE(requests[0].isOpen());
}

TEST_F(SequencesTest, PromptsOfTwoFillOneStep) {
  Engine &engine = open();
  std::vector<std::string> phases;
  engine.setObserver([&](const PhaseRun &times) {
    phases.push_back(
        fmt::format("{} {}", nameOf(times.phase), times.step.tokens));
  });
  Sequence a = engine.sequence(), b = engine.sequence();
  std::vector<int32_t> first = textOf(1, 3), second = textOf(2, 4);
  Request requests[] = {{&a, first}, {&b, second}};
  int rows = 0;
  while (requests[0].isOpen() || requests[1].isOpen())
    ASSERT_TRUE(engine
                    .step(requests,
                          [&](size_t i, int32_t, std::span<const float> row) {
                            ++rows;
                            expectLogits(row, i ? second : first);
                            return Status::ok();
                          })
                    .isOk());
  EXPECT_EQ(rows, 2);
  EXPECT_EQ(phases, (std::vector<std::string>{"prefill 5", "logits 1",
                                              "prefill 2", "logits 1"}));
}

TEST_F(SequencesTest, ASharedPrefixIsNotComputedAgain) {
  Engine &engine = open();
  int32_t rows = 0;
  engine.setObserver([&](const PhaseRun &times) {
    rows += times.phase == PhaseKind::Logits ? 0 : times.step.tokens;
  });
  std::vector<int32_t> text = textOf(1, 2 * kPage + 5);
  Sequence a = engine.sequence();
  append(a, text);
  EXPECT_EQ(rows, int32_t(text.size()));
  int32_t free = engine.freePages();

  rows = 0;
  std::vector<int32_t> other(text.begin(), text.begin() + 2 * kPage);
  other.push_back(7);
  Sequence b = engine.sequence();
  append(b, other);
  EXPECT_EQ(rows, 1);
  EXPECT_EQ(engine.freePages(), free - 1);

  // The last token of whole pages is computed again for its logits.
  rows = 0;
  Sequence c = engine.sequence();
  append(c, std::span(text).first(2 * kPage));
  EXPECT_EQ(rows, kPage);

  // A sequence that does not share neither uses nor provides prefixes.
  rows = 0;
  Sequence d = engine.sequence({.sharePrefixes = false});
  append(d, std::span(text).first(kPage + 1));
  EXPECT_EQ(rows, kPage + 1);
}

TEST_F(SequencesTest, PrefixesOutliveTheirSequence) {
  Engine &engine = open();
  std::vector<int32_t> text = textOf(1, kPage + 2);
  {
    Sequence a = engine.sequence();
    append(a, text);
  }
  EXPECT_EQ(engine.freePages(), engine.pages());
  int32_t rows = 0;
  engine.setObserver([&](const PhaseRun &times) {
    rows += times.phase == PhaseKind::Logits ? 0 : times.step.tokens;
  });
  Sequence b = engine.sequence();
  append(b, text);
  EXPECT_EQ(rows, 2);
}

TEST_F(SequencesTest, ForksGoTheirOwnWays) {
  Engine &engine = open();
  std::vector<int32_t> text = textOf(3, 10);
  Sequence a = engine.sequence();
  append(a, text);
  int32_t free = engine.freePages();
  Sequence b = a.fork();
  EXPECT_EQ(b.position(), 10);
  EXPECT_EQ(engine.freePages(), free);
  append(b, std::vector<int32_t>{1, 2});
  EXPECT_EQ(engine.freePages(), free - 1);
  append(a, std::vector<int32_t>{5, 6, 7});
  append(b, std::vector<int32_t>{3});
  append(a, std::vector<int32_t>{8});
}

// The pages after the rewound position are another sequence's prefix now.
TEST_F(SequencesTest, ARewoundSequenceWritesToNoSharedPage) {
  Engine &engine = open();
  std::vector<int32_t> text = textOf(4, 2 * kPage + 3);
  Sequence a = engine.sequence();
  append(a, text);
  Sequence b = engine.sequence();
  append(b, text);
  ASSERT_TRUE(a.rewind(kPage / 2).isOk());
  append(a, std::vector<int32_t>{9, 9, 9});
  append(b, std::vector<int32_t>{1});
  Sequence c = engine.sequence();
  append(c, text);
}

// Without a free page, the sequence's own prefix is dropped.
TEST_F(SequencesTest, ARewoundSequenceFitsWhereItDidBefore) {
  Engine &engine = open(kPage, 1);
  std::vector<int32_t> text = textOf(4, kPage);
  Sequence a = engine.sequence();
  append(a, text);
  ASSERT_TRUE(a.rewind(10).isOk());
  append(a, std::vector<int32_t>{9, 9, 9});
}

TEST_F(SequencesTest, AFullPoolFailsOneSequence) {
  Engine &engine = open(2 * kPage, 2);
  std::vector<int32_t> text = textOf(5, kPage + 1);
  Sequence a = engine.sequence(), b = engine.sequence();
  append(a, text);
  std::vector<int32_t> others = {1, 2, 3}, next = {7};
  Request requests[] = {{&b, others}, {&a, next}};
  int rows = 0;
  ASSERT_TRUE(engine
                  .step(requests,
                        [&](size_t i, int32_t, std::span<const float>) {
                          rows += i == 1;
                          return Status::ok();
                        })
                  .isOk());
  EXPECT_EQ(rows, 1);
  EXPECT_EQ(requests[0].status.code(), StatusCode::DoesNotFit);
  EXPECT_EQ(engine.freePages(), 0);
  EXPECT_NE(requests[0].status.message().find("cache of 128 tokens is full"),
            std::string::npos)
      << requests[0].status.message();
  EXPECT_EQ(b.position(), 0);
  ASSERT_TRUE(a.rewind(0).isOk());
  append(b, others);
}

// A sequence returns the pages that it got before the pool was empty.
TEST_F(SequencesTest, ASequenceThatDoesNotFitHoldsNothing) {
  Engine &engine =
      openOn(bestIsa(), SamplePlan::Room{2 * kPage, 3, 1, 2 * kPage});
  std::vector<int32_t> text = textOf(5, kPage + 1), more = textOf(6, 2 * kPage);
  Sequence a = engine.sequence(), b = engine.sequence();
  append(a, text);
  EXPECT_EQ(engine.append(b, more).status().code(), StatusCode::DoesNotFit);
  EXPECT_EQ(engine.freePages(), 1);
}

TEST_F(SequencesTest, NanFailsOnlyItsSequence) {
  plan_.emplace(bestIsa(), SamplePlan::Room{kPage, 4, 4});
  plan_->fillRow("embed", 0, 39, NAN);
  Engine &engine = reopen();
  Sequence a = engine.sequence(), b = engine.sequence(), c = engine.sequence();
  std::vector<int32_t> one = {3}, bad = {39}, three = {5};
  Request requests[] = {{&a, one}, {&b, bad}, {&c, three}};
  ASSERT_TRUE(engine
                  .step(requests,
                        [&](size_t i, int32_t, std::span<const float> row) {
                          EXPECT_NE(i, 1u);
                          expectLogits(row, i ? three : one);
                          return Status::ok();
                        })
                  .isOk());
  EXPECT_TRUE(requests[0].status.isOk());
  EXPECT_TRUE(requests[2].status.isOk());
  EXPECT_EQ(requests[1].status.code(), StatusCode::InvalidFile);
  EXPECT_NE(requests[1].status.message().find(": embed holds"),
            std::string::npos);
  EXPECT_EQ(a.position() + b.position() * 10 + c.position(), 2);
  append(b, three);
}

TEST_F(SequencesTest, CancellationAffectsOneSequence) {
  Engine &engine = open();
  std::atomic<bool> cancel = true;
  Sequence a = engine.sequence(), b = engine.sequence();
  a.setCancel(&cancel);
  std::vector<int32_t> text = {1, 2, 3};
  Request requests[] = {{&a, text}, {&b, text}};
  ASSERT_TRUE(
      engine
          .step(requests, [](size_t, int32_t,
                             std::span<const float>) { return Status::ok(); })
          .isOk());
  EXPECT_EQ(requests[0].status.code(), StatusCode::Cancelled);
  EXPECT_EQ(a.position(), 0);
  EXPECT_EQ(b.position(), 3);
  cancel = false;
  append(a, text);
}

TEST_F(SequencesTest, AStepRefusesInvalidRequests) {
  Engine &engine = open();
  SamplePlan second(bestIsa());
  TempDir folder;
  auto stranger = Engine::open(second.builder.write(folder));
  ASSERT_TRUE(stranger.isOk());
  Sequence a = engine.sequence(), foreign = (*stranger)->sequence();
  std::vector<int32_t> text = {1, 2, 3};
  Request requests[] = {{&a, text}, {&a, text}, {&foreign, text}};
  ASSERT_TRUE(
      engine
          .step(requests, [](size_t, int32_t,
                             std::span<const float>) { return Status::ok(); })
          .isOk());
  EXPECT_TRUE(requests[0].status.isOk());
  EXPECT_EQ(requests[1].status.code(), StatusCode::Usage);
  EXPECT_EQ(requests[2].status.code(), StatusCode::Usage);
}

TEST_F(SequencesTest, ASavedSequenceGoesOn) {
  for (moek::KvType type : {moek::KvType::F32, moek::KvType::Q8_0}) {
    SCOPED_TRACE(int(type));
    Engine *engine =
        &openOn(bestIsa(), SamplePlan::Room{3 * kPage, 8, 1, 5, type});
    std::vector<int32_t> text = textOf(6, kPage + 9);
    std::string file = folder_.path() + "/text.seq";
    std::vector<float> expected;
    {
      Sequence a = engine->sequence();
      ASSERT_TRUE(engine->append(a, text).isOk());
      ASSERT_TRUE(a.save(file).isOk());
      auto logits = engine->append(a, 3);
      ASSERT_TRUE(logits.isOk());
      expected.assign(logits->begin(), logits->end());
    }
    // The first engine still has the page, the second one has to read it.
    for (int i = 0; i < 2; ++i) {
      int32_t free = engine->freePages();
      StatusOr<Sequence> b = engine->restore(file);
      ASSERT_TRUE(b.isOk()) << b.status().message();
      EXPECT_EQ(engine->freePages(), free - 2);
      // The restored prefix can be shared too.
      StatusOr<Sequence> c = engine->restore(file);
      ASSERT_TRUE(c.isOk());
      EXPECT_EQ(engine->freePages(), free - 3);
      EXPECT_TRUE(std::ranges::equal(b->tokens(), text));
      auto logits = engine->append(*b, 3);
      ASSERT_TRUE(logits.isOk());
      EXPECT_TRUE(std::ranges::equal(*logits, expected));
      if (i == 0) {
        b = Status(StatusCode::Usage, "gone");
        c = Status(StatusCode::Usage, "gone");
        engine = &reopen();
      }
    }
  }
}

TEST_F(SequencesTest, DamagedAndForeignFilesAreRefused) {
  Engine &engine = open(kPage, 2);
  std::string file = folder_.path() + "/text.seq";
  {
    Sequence a = engine.sequence();
    append(a, textOf(6, 9));
    ASSERT_TRUE(a.save(file).isOk());
  }
  std::string good = readFile(file);
  auto restored = [&](const std::string &bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    return engine.restore(file).status();
  };
  ASSERT_TRUE(restored(good).isOk());
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ (1 << (i % 8)));
    Status status = restored(bad);
    ASSERT_FALSE(status.isOk()) << i;
    ASSERT_NE(status.message().find(file), std::string::npos);
    ASSERT_TRUE(status.code() == StatusCode::InvalidFile ||
                status.code() == StatusCode::WrongMachine);
  }
  for (size_t size = 0; size < good.size(); size += 7)
    ASSERT_FALSE(restored(good.substr(0, size)).isOk()) << size;
  EXPECT_FALSE(restored(good + "x").isOk());
  EXPECT_EQ(engine.restore(folder_.path() + "/none").status().code(),
            StatusCode::Io);
  EXPECT_EQ(engine.freePages(), 2);

  // A file of another plan.
  plan_->builder.plan.model_name = "another";
  Engine &other = reopen();
  std::ofstream(file, std::ios::binary | std::ios::trunc) << good;
  Status status = other.restore(file).status();
  EXPECT_EQ(status.code(), StatusCode::WrongMachine) << status.message();
}

} // namespace
