// A software GPU streams the CPU's experts for prompts.

#include "test/unit/CudaDeviceFixture.h"

using namespace moert;
using namespace moetest;
using ::testing::HasSubstr;

namespace {

class CudaStreamedTest : public CudaDeviceFixture {
protected:
  Timing timing() const override { return timing_; }
  Timing timing_ = Timing::Late;
  fb::ResidencyMode mode_ = fb::ResidencyMode::Streamed;
  EngineOptions options_ = onSoftCuda();

  /// Prompts run on the GPU, with the experts that decode has on the CPU.
  void stream(fb::ResidencyMode mode) {
    mode_ = mode;
    splitPlan(plan(), [](const auto &phase, const auto &instruction) {
      return phase.name == "prefill" ? 1 : apartFromExperts(phase, instruction);
    });
    makeGpu(plan(), 1, planArch(), 1);
    for (const auto &phase : plan().phases)
      for (const auto &instruction : phase->instructions)
        if (phase->name == "prefill" &&
            apartFromExperts(*phase, *instruction) == 0)
          for (const fb::Operand &operand : instruction->operands)
            if (operand.kind() == fb::OperandKind::Weight)
              residentStreamed(operand.index());
  }
  void residentStreamed(uint32_t weight) {
    for (fb::Residency &entry : plan().residency)
      if (entry.weight() == weight && entry.device() == 1)
        entry = fb::Residency(weight, 1, mode_);
  }
  /// Loads the code of the plan's kernels into a driver that has restarted.
  void restart() {
    start();
    for (const auto &module : plan().modules)
      for (const auto &image : module->images)
        softcuda::addCubin({reinterpret_cast<const char *>(image->cubin.data()),
                            image->cubin.size()},
                           image->ptx);
  }
  /// Evaluates a prompt twice, by single launches and by graphs or what is used
  /// in place of them, and returns the logits of the second time.
  std::vector<float> logitsOf(const std::string &path) {
    std::vector<float> all;
    auto one = OneSequence::open(path, options_);
    EXPECT_TRUE(one.isOk()) << one.status().message();
    if (!one)
      return all;
    expectPrefill(*one);
    EXPECT_TRUE(one->sequence.rewind(0).isOk());
    Status status = one->engine->appendAll(
        one->sequence, tokens,
        [&](size_t, int32_t, std::span<const float> logits) {
          all.insert(all.end(), logits.begin(), logits.end());
          return Status::ok();
        });
    EXPECT_TRUE(status.isOk()) << status.message();
    EXPECT_THAT(softcuda::findings(), testing::IsEmpty());
    return all;
  }
  uint32_t weightOf(const char *op, size_t operand) {
    return sample_.phase("prefill")
        .instructions[sample_.find("prefill", op)]
        ->operands[operand]
        .index();
  }
};

// Whether experts are resident, go through a ring of any size or are read by
// the GPU in the host's memory, and whenever copies run: the bits are the same.
TEST_F(CudaStreamedTest, ResultsDependNeitherOnTheWayNorOnTiming) {
  SOFTWARE_ONLY();
  splitPlan(plan(), [](const auto &phase, const auto &instruction) {
    return phase.name == "prefill" ? 1 : apartFromExperts(phase, instruction);
  });
  makeGpu(plan(), 1, planArch(), 1);
  const std::vector<float> resident = logitsOf(write());
  ASSERT_FALSE(resident.empty());
  for (fb::ResidencyMode mode :
       {fb::ResidencyMode::Streamed, fb::ResidencyMode::Pinned}) {
    SamplePlan fresh{"ref"};
    sample_ = std::move(fresh);
    stream(mode);
    const std::string path = write();
    // Two slots of a line, of four, and all of a step's copies at a time.
    std::vector<uint64_t> rings = {128, 512, kMostRingBytes};
    if (mode == fb::ResidencyMode::Pinned)
      rings = {kMostRingBytes};
    for (uint64_t ring : rings)
      for (Timing timing : {Timing::Early, Timing::Late, Timing::Seeded}) {
        SCOPED_TRACE(testing::Message()
                     << fb::EnumNameResidencyMode(mode) << ", ring of " << ring
                     << " bytes, timing " << int(timing));
        timing_ = timing;
        options_.cuda.mostRingBytes = ring;
        restart();
        EXPECT_EQ(logitsOf(path), resident);
      }
  }
}

// Experts that no token chose are not streamed: two equal tokens need only one
// of the two experts in each instruction's first part.
TEST_F(CudaStreamedTest, UnusedExpertsAreNotStreamed) {
  SOFTWARE_ONLY();
  stream(fb::ResidencyMode::Pinned);
  auto one = open();
  uint64_t each = 0;
  for (auto [op, operand] :
       {std::pair("experts_gate_up", 1), std::pair("experts_gate_up", 2),
        std::pair("experts_linear", 1)})
    each +=
        uint64_t(plan().weights[weightOf(op, size_t(operand))]->outer_stride);
  auto brought = [] {
    return softcuda::totals()
        .kernels["stream_experts"]
        .globalStores.usefulBytes;
  };
  for (int32_t token = 0; token < 3; ++token) {
    ASSERT_TRUE(one.sequence.rewind(0).isOk());
    uint64_t before = brought();
    Status status = one.engine->appendAll(
        one.sequence, std::vector<int32_t>{token, token},
        [](size_t, int32_t, std::span<const float>) { return Status::ok(); });
    ASSERT_TRUE(status.isOk()) << status.message();
    EXPECT_EQ(brought() - before, each);
  }
}

TEST_F(CudaStreamedTest, OnlyExpertsAreStreamed) {
  SOFTWARE_ONLY();
  stream(fb::ResidencyMode::Streamed);
  residentStreamed(weightOf("linear", 1));
  EXPECT_THAT(failureOf(write(), StatusCode::InvalidFile),
              HasSubstr("operand w is a weight that is streamed, which only "
                        "gemms of experts read"));
}

TEST_F(CudaStreamedTest, AllOfAnInstructionIsStreamedOrNothing) {
  SOFTWARE_ONLY();
  stream(fb::ResidencyMode::Streamed);
  uint32_t gate = weightOf("experts_gate_up", 1);
  for (fb::Residency &entry : plan().residency)
    if (entry.weight() == gate && entry.device() == 1)
      entry = fb::Residency(gate, 1, fb::ResidencyMode::Resident);
  EXPECT_THAT(failureOf(write(), StatusCode::InvalidFile),
              HasSubstr("1 of its 2 weights are streamed"));
}

TEST_F(CudaStreamedTest, AllOfAnInstructionIsPinnedOrNothing) {
  SOFTWARE_ONLY();
  stream(fb::ResidencyMode::Streamed);
  mode_ = fb::ResidencyMode::Pinned;
  residentStreamed(weightOf("experts_gate_up", 1));
  EXPECT_THAT(failureOf(write(), StatusCode::InvalidFile),
              HasSubstr("1 of its 2 streamed weights are pinned"));
}

TEST_F(CudaStreamedTest, MatricesFollowEachOther) {
  SOFTWARE_ONLY();
  stream(fb::ResidencyMode::Streamed);
  fb::WeightT &down = *plan().weights[weightOf("experts_linear", 1)];
  --down.outer;
  down.outer_stride += 64;
  EXPECT_THAT(failureOf(write(), StatusCode::InvalidFile),
              HasSubstr("gaps between its matrices"));
}

// The driver refuses to pin more pages.
TEST_F(CudaStreamedTest, PagesThatAreNotPinnedAreAnError) {
  SOFTWARE_ONLY();
  stream(fb::ResidencyMode::Pinned);
  std::string path = write();
  softcuda::Options options;
  options.failures["cuMemHostRegister_v2"] = 2;
  softcuda::reset(std::move(options));
  EXPECT_THAT(failureOf(path, StatusCode::DoesNotFit), HasSubstr("pinning"));
}

// Of the weights only what the ring holds is pinned.
TEST_F(CudaStreamedTest, OnlyTheRingIsPinned) {
  SOFTWARE_ONLY();
  stream(fb::ResidencyMode::Streamed);
  const std::string path = write();
  std::vector<uint64_t> pinned;
  for (uint64_t ring : {uint64_t(128), uint64_t(1) << 12}) {
    options_.cuda.mostRingBytes = ring;
    restart();
    logitsOf(path);
    pinned.push_back(softcuda::totals().mostPinnedBytes);
  }
  EXPECT_EQ(pinned[1] - pinned[0], (1u << 12) - 128);
}

// A step that fails or is given up amid its copies leaves nothing behind.
TEST_F(CudaStreamedTest, TheNextStepDoesNotNoticeOneThatFailed) {
  SOFTWARE_ONLY();
  stream(fb::ResidencyMode::Streamed);
  options_.cuda.mostRingBytes = 512;
  auto one = open(options_);
  expectPrefill(one);
  for (const char *call : {"cuEventSynchronize", "cuStreamWaitEvent"}) {
    SCOPED_TRACE(call);
    ASSERT_TRUE(one.sequence.rewind(0).isOk());
    softcuda::options().failures[call] = 1;
    Status status = one.engine->appendAll(
        one.sequence, tokens,
        [](size_t, int32_t, std::span<const float>) { return Status::ok(); });
    softcuda::options().failures.clear();
    EXPECT_THAT(status.message(), HasSubstr("streaming weights"));
    ASSERT_TRUE(one.sequence.rewind(0).isOk());
    expectPrefill(one);
  }
}

} // namespace
