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

  /// Prompts run on the GPU, with the experts that decode has on the CPU.
  void stream() {
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
        entry = fb::Residency(weight, 1, fb::ResidencyMode::Streamed);
  }
  uint32_t weightOf(const char *op, size_t operand) {
    return sample_.phase("prefill")
        .instructions[sample_.find("prefill", op)]
        ->operands[operand]
        .index();
  }
};

TEST_F(CudaStreamedTest, ResultsDoNotDependOnTiming) {
  SOFTWARE_ONLY();
  stream();
  std::string path = write();
  std::vector<float> first;
  for (Timing timing : {Timing::Early, Timing::Late, Timing::Seeded}) {
    timing_ = timing;
    start();
    for (const auto &module : plan().modules)
      for (const auto &image : module->images)
        softcuda::addCubin({reinterpret_cast<const char *>(image->cubin.data()),
                            image->cubin.size()},
                           image->ptx);
    auto one = OneSequence::open(path, onSoftCuda());
    ASSERT_TRUE(one.isOk()) << one.status().message();
    expectPrefill(*one); // Single launches at first, then graphs.
    std::vector<float> all;
    // Evaluates the prompt once more, with graphs only.
    ASSERT_TRUE(one->sequence.rewind(0).isOk());
    Status status = one->engine->appendAll(
        one->sequence, tokens,
        [&](size_t, int32_t, std::span<const float> logits) {
          all.insert(all.end(), logits.begin(), logits.end());
          return Status::ok();
        });
    ASSERT_TRUE(status.isOk()) << status.message();
    if (first.empty())
      first = all;
    EXPECT_EQ(all, first);
    EXPECT_THAT(softcuda::findings(), testing::IsEmpty());
  }
}

// Experts that no token chose are not streamed: two equal tokens need only one
// of the two experts in each instruction's first part.
TEST_F(CudaStreamedTest, UnusedExpertsAreNotStreamed) {
  SOFTWARE_ONLY();
  stream();
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
  stream();
  residentStreamed(weightOf("linear", 1));
  EXPECT_THAT(failureOf(write(), StatusCode::InvalidFile),
              HasSubstr("operand w is a weight that is streamed, which only "
                        "gemms of experts read"));
}

TEST_F(CudaStreamedTest, AllOfAnInstructionIsStreamedOrNothing) {
  SOFTWARE_ONLY();
  stream();
  uint32_t gate = weightOf("experts_gate_up", 1);
  for (fb::Residency &entry : plan().residency)
    if (entry.weight() == gate && entry.device() == 1)
      entry = fb::Residency(gate, 1, fb::ResidencyMode::Resident);
  EXPECT_THAT(failureOf(write(), StatusCode::InvalidFile),
              HasSubstr("1 of its 2 weights are streamed"));
}

TEST_F(CudaStreamedTest, MatricesFollowEachOther) {
  SOFTWARE_ONLY();
  stream();
  fb::WeightT &down = *plan().weights[weightOf("experts_linear", 1)];
  --down.outer;
  down.outer_stride += 64;
  EXPECT_THAT(failureOf(write(), StatusCode::InvalidFile),
              HasSubstr("gaps between its matrices"));
}

// The driver refuses to pin more pages.
TEST_F(CudaStreamedTest, PagesThatAreNotPinnedAreAnError) {
  SOFTWARE_ONLY();
  stream();
  std::string path = write();
  softcuda::Options options;
  options.failures["cuMemHostRegister_v2"] = 2;
  softcuda::reset(std::move(options));
  EXPECT_THAT(failureOf(path, StatusCode::DoesNotFit), HasSubstr("pinning"));
}

} // namespace
