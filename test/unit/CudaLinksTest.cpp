// Runs a plan on two software GPUs, one of which reads results of the other.

#include "test/unit/CudaDeviceFixture.h"

using namespace moert;
using namespace moetest;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

class CudaLinksTest : public CudaDeviceFixture,
                      public ::testing::WithParamInterface<Timing> {
protected:
  Timing timing() const override { return GetParam(); }
  void SetUp() override {
    CudaDeviceFixture::SetUp();
    if (isOnDriver())
      GTEST_SKIP() << "needs two GPUs";
    start(planArch(), 13000, 2);
  }
};

INSTANTIATE_TEST_SUITE_P(Timings, CudaLinksTest,
                         ::testing::Values(Timing::Early, Timing::Late,
                                           Timing::Seeded),
                         [](const auto &info) {
                           return info.param == Timing::Early  ? "Early"
                                  : info.param == Timing::Late ? "Late"
                                                               : "Seeded";
                         });

// Host memory is the only memory that GPUs share here: softgpu reports any
// access to another GPU's memory.
TEST_P(CudaLinksTest, StatesGoThroughTheHost) {
  SOFTWARE_ONLY();
  splitGpus();
  auto one = open();
  uint64_t before = softcuda::totals().bytesToHost;
  expectDecode(one, 0, 5);
  EXPECT_GT(softcuda::totals().bytesToHost, before);
}

TEST_P(CudaLinksTest, PrefillGoesThere) {
  splitGpus();
  auto one = open();
  for (int round = 0; round < 2; ++round) {
    expectPrefill(one);
    ASSERT_TRUE(one.sequence.rewind(0).isOk());
  }
}

// Each GPU has one graph, which waits for the other GPU inside.
TEST_P(CudaLinksTest, DecodeIsAGraphOfEach) {
  SOFTWARE_ONLY();
  splitGpus();
  auto one = open();
  expectDecode(one, 0, 2);
  softcuda::Totals before = softcuda::totals();
  expectDecode(one, 2, 3);
  softcuda::Totals after = softcuda::totals();
  EXPECT_EQ(after.captures, before.captures);
  EXPECT_EQ(after.calls["cuLaunchKernel"], before.calls["cuLaunchKernel"]);
  EXPECT_EQ(after.allocations, before.allocations);
}

// When an instruction runs alone, its copies to other devices run with it.
TEST_P(CudaLinksTest, SingleInstructionsAreTimed) {
  splitGpus();
  auto one = open();
  size_t told = 0;
  one.engine->setObserver([&](const PhaseRun &times) {
    for (const InstructionTime &time : times.instructions)
      told += time.run > 0;
  });
  expectDecode(one, 0, 3);
  EXPECT_GT(told, 0u);
}

// The receiving device has to perform the copies of a plan.
TEST_P(CudaLinksTest, ACopyIntoAnothersMemoryIsRefused) {
  SOFTWARE_ONLY();
  splitGpus();
  for (auto &phase : plan().phases) {
    for (auto &instruction : phase->instructions)
      if (moek::OpCode(instruction->op) == moek::OpCode::Copy)
        instruction->queue = 1 - instruction->queue;
    orderQueues(plan(), *phase);
  }
  EXPECT_THAT(failureOf(write(), StatusCode::WrongMachine),
              AllOf(HasSubstr("(copy)"), HasSubstr("cannot access")));
}

} // namespace
