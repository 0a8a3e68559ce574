// The recorded work of instructions, summed for steps.
#include "runtime/plan/StepWork.h"

#include "test/support/SamplePlan.h"

#include <gtest/gtest.h>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

class StepWorkTest : public testing::Test {
protected:
  /// Returns the work of a step if an instruction has `work`.
  StepWork of(const fb::Work &work, StepSize step) {
    fb::InstructionT table;
    table.work = std::make_unique<fb::Work>(work);
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(fb::CreateInstruction(builder, &table));
    return instructionWork(
        *flatbuffers::GetRoot<fb::Instruction>(builder.GetBufferPointer()),
        step);
  }
};

TEST_F(StepWorkTest, OperationsDependOnTokensRowsAndContext) {
  // Three tokens after two: they see 3, 4 and 5 of five rows.
  StepSize step = StepSize::after(2, 3);
  EXPECT_EQ(of({100, 0, 0, 0, 0}, step).ops, 300);
  EXPECT_EQ(of({0, 100, 0, 0, 0}, step).ops, 1200);
  EXPECT_EQ(of({0, 0, 100, 0, 0}, step).ops, 500);
  // One token of each of three sequences, which have their own rows.
  step = StepSize::ofSequences(3, 5);
  EXPECT_EQ(of({0, 100, 0, 0, 0}, step).ops, 1500);
  EXPECT_EQ(of({0, 0, 100, 0, 0}, step).ops, 1500);
}

TEST_F(StepWorkTest, BytesDependOnWhatTokensShare) {
  auto bytes = [&](double again, double tokens) {
    return of({0, 0, 0, 64, again}, StepSize::after(7, tokens)).bytes;
  };
  EXPECT_EQ(bytes(0, 1), 64); // The bytes of one matrix.
  EXPECT_EQ(bytes(0, 5), 64);
  EXPECT_EQ(bytes(1, 5), 320); // The bytes of one row for each token.
  // The first token reads half of the experts, the next one half of the others.
  EXPECT_EQ(bytes(0.5, 1), 64);
  EXPECT_EQ(bytes(0.5, 2), 96);
  EXPECT_EQ(bytes(0.5, 3), 112);
}

TEST_F(StepWorkTest, APhaseIsTheSumOfItsInstructions) {
  TempDir folder;
  SamplePlan sample;
  for (const auto &instruction : sample.phase("decode").instructions)
    instruction->work = nullptr;
  sample.phase("decode").instructions[0]->work =
      std::make_unique<fb::Work>(1, 2, 4, 8, 0);
  sample.phase("decode").instructions[sample.find("decode", "linear")]->work =
      std::make_unique<fb::Work>(16, 0, 0, 32, 1);
  auto plan = Plan::load(sample.builder.write(folder));
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  StepWork work = phaseWork(*plan, PhaseKind::Decode, StepSize::after(9, 1));
  EXPECT_EQ(work.ops, 1 + 20 + 40 + 16);
  EXPECT_EQ(work.bytes, 40);
  EXPECT_EQ(phaseWork(*plan, PhaseKind::Batch, StepSize::after(9, 1)).bytes, 0);
  // The work is that of decode, or of prefill with more tokens.
  EXPECT_EQ(sequenceWork(*plan, StepSize::after(9, 1)).ops, work.ops);
  double five = phaseWork(*plan, PhaseKind::Prefill, StepSize::after(0, 5)).ops;
  EXPECT_GT(five, 0);
  EXPECT_EQ(sequenceWork(*plan, StepSize::after(0, 5)).ops, five);
}

} // namespace
