// Layers with recurrent states on a software GPU: sequences use states as on a
// CPU (DeltaPlanTest.cpp), in memory that only the device can access.

#include "test/unit/CudaDeviceFixture.h"
#include "test/unit/DeltaPlan.h"

using namespace moert;
using namespace moetest;

namespace {

class CudaStatesTest : public CudaDeviceFixture {
protected:
  Timing timing() const override { return Timing::Late; }

  void SetUp() override {
    CudaDeviceFixture::SetUp();
    if (IsSkipped())
      return;
    auto engine = Engine::open(write(delta_.builder, planArch()), onSoftCuda());
    ASSERT_TRUE(engine.isOk()) << engine.status().message();
    engine_ = *std::move(engine);
    engine_->setObserver([&](const PhaseRun &times) {
      if (times.phase != PhaseKind::Logits)
        evaluated_ += times.step.tokens;
    });
  }
  void TearDown() override {
    engine_ = nullptr;
    CudaDeviceFixture::TearDown();
  }

  static Tokens textOf(uint32_t seed, int32_t count) {
    return tokensOf(seed, count, DeltaPlan::kVocab);
  }
  /// Appends and checks the logits; returns how many tokens were evaluated.
  int append(Sequence &sequence, const Tokens &tokens) {
    evaluated_ = 0;
    auto logits = engine_->append(sequence, tokens);
    EXPECT_TRUE(logits.isOk()) << logits.status().message();
    if (logits.isOk())
      expectLast(sequence, *logits);
    return evaluated_;
  }
  void expectLast(const Sequence &sequence, std::span<const float> logits) {
    Tokens all(sequence.tokens().begin(), sequence.tokens().end());
    moetest::expectRow(logits, delta_.reference(all).back());
  }

  DeltaPlan delta_{"ref"};
  std::unique_ptr<Engine> engine_;
  int evaluated_ = 0;
};

TEST_F(CudaStatesTest, PromptsAndTokensMatchFloat64) {
  const Tokens text = textOf(3, 60);
  std::vector<SmallModel::Values> expected = delta_.reference(text);
  Sequence one = engine_->sequence(), all = engine_->sequence();
  for (size_t t = 0; t < text.size(); ++t) {
    auto logits = engine_->append(one, text[t]);
    ASSERT_TRUE(logits.isOk()) << logits.status().message();
    moetest::expectRow(*logits, expected[t]);
  }
  Status status = engine_->appendAll(
      all, text, [&](size_t, int32_t position, std::span<const float> logits) {
        moetest::expectRow(logits, expected[size_t(position)]);
        return Status::ok();
      });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST_F(CudaStatesTest, SequencesBesideOthersKeepTheirOwn) {
  std::vector<Sequence> sequences;
  for (uint32_t i = 0; i < 3; ++i) {
    sequences.push_back(engine_->sequence());
    append(sequences[i], textOf(i, 5 + 7 * int32_t(i)));
  }
  for (int32_t token : {7, 30}) {
    std::vector<Request> requests;
    for (Sequence &sequence : sequences)
      requests.push_back({&sequence, {&token, 1}});
    Status status = engine_->step(
        requests, [&](size_t i, int32_t, std::span<const float> row) {
          expectLast(sequences[i], row);
          return Status::ok();
        });
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

TEST_F(CudaStatesTest, AForkGoesItsOwnWay) {
  Sequence a = engine_->sequence();
  append(a, textOf(2, 30));
  Sequence b = a.fork();
  EXPECT_EQ(append(a, {1}), 1);
  EXPECT_EQ(append(b, {2}), 1);
  EXPECT_EQ(append(a, {3, 4, 5}), 3);
  EXPECT_EQ(append(b, {6}), 1);
}

TEST_F(CudaStatesTest, RewindingEvaluatesAgainFromTheLastCheckpoint) {
  Sequence a = engine_->sequence();
  EXPECT_EQ(append(a, textOf(1, kPage + 20)), kPage + 20);
  ASSERT_TRUE(a.rewind(kPage + 9).isOk());
  EXPECT_EQ(append(a, {7}), 9 + 1);
  ASSERT_TRUE(a.rewind(kPage).isOk());
  EXPECT_EQ(append(a, {9, 10}), 2);
  ASSERT_TRUE(a.rewind(0).isOk());
  EXPECT_EQ(append(a, {11}), 1);
}

TEST_F(CudaStatesTest, ASavedSequenceGoesOn) {
  std::string file = folder_.path() + "/text.seq";
  {
    Sequence a = engine_->sequence();
    append(a, textOf(6, 40));
    ASSERT_TRUE(a.save(file).isOk());
  }
  auto b = engine_->restore(file);
  ASSERT_TRUE(b.isOk()) << b.status().message();
  EXPECT_EQ(append(*b, {3}), 1);
}

} // namespace
