// The order that moec gives queues of GPUs and a CPU: plans are proved correct,
// and every wait and barrier is needed. These plans cannot run here, but they
// can be verified.

#include "compiler/Driver/Driver.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Verify.h"
#include "test/support/TempDir.h"
#include "test/support/TinyDeepseek.h"

#include <gtest/gtest.h>
#include <utility>

using namespace moetest;
namespace fb = moert::fb;

namespace {

class PlanOrder : public ::testing::TestWithParam<const char *> {
protected:
  PlanOrder() {
    moec::CompileRequest request;
    request.model = TinyDeepseek().build().write(folder_.file("m.gguf"));
    request.target = GetParam();
    request.weights = "reference";
    request.noTokenizer = true;
    // All devices work, which would not pay for so small a model.
    request.place = {"*=gpu0", "blk.*.ffn_experts=cpu0"};
    if (request.target.starts_with("2x"))
      request.place.emplace_back("blk.1.attn*=gpu1");
    request.output = folder_.file("m.fb");
    auto report = moec::compileModel(request);
    EXPECT_TRUE(report.isOk()) << report.status().message();
    fb::GetPlan(report->plan.data())->UnPackTo(&plan_);
    plan_.checksum = 0;
  }

  moert::Status verify() const {
    flatbuffers::FlatBufferBuilder builder;
    fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &plan_));
    auto plan = moert::Plan::fromBytes(
        {builder.GetBufferPointer(), builder.GetSize()}, "plan.fb");
    if (!plan)
      return plan.status();
    for (const fb::Phase *phase : *plan->table().phases())
      MOE_RETURN_IF_ERROR(moert::verifyDataflow(plan->table(), *phase));
    return moert::Status::ok();
  }

  TempDir folder_;
  fb::PlanT plan_;
};

TEST_P(PlanOrder, EveryWaitAndBarrierIsNeeded) {
  ASSERT_TRUE(verify().isOk()) << verify().message();
  size_t waits = 0, barriers = 0;
  for (auto &phase : plan_.phases)
    for (auto &instruction : phase->instructions) {
      for (size_t i = 0; i < instruction->waits.size(); ++i, ++waits) {
        auto kept = instruction->waits;
        instruction->waits.erase(instruction->waits.begin() + long(i));
        EXPECT_NE(verify().message().find("between them"), std::string::npos)
            << verify().message();
        instruction->waits = kept;
      }
      if (std::exchange(instruction->barrier, false)) {
        ++barriers;
        EXPECT_NE(verify().message().find("between them"), std::string::npos)
            << verify().message();
        instruction->barrier = true;
      }
    }
  EXPECT_GT(waits, 0u);
  EXPECT_GT(barriers, 0u);
}

TEST_P(PlanOrder, EveryEventIsSignalledAndWaitedFor) {
  for (auto &phase : plan_.phases) {
    std::vector<bool> waited(phase->events);
    for (auto &instruction : phase->instructions)
      for (uint32_t event : instruction->waits)
        waited[event] = true;
    EXPECT_EQ(waited, std::vector<bool>(phase->events, true)) << phase->name;
    for (auto &instruction : phase->instructions)
      if (instruction->signal >= 0) {
        int32_t event = std::exchange(instruction->signal, -1);
        EXPECT_FALSE(verify().isOk()) << phase->name << " event " << event;
        instruction->signal = event;
      }
  }
}

TEST_P(PlanOrder, WeightsAreWhereTheyAreRead) {
  EXPECT_FALSE(plan_.residency.empty());
  for (size_t i = 0; i < plan_.residency.size(); ++i) {
    fb::Residency kept = plan_.residency[i];
    plan_.residency.erase(plan_.residency.begin() + long(i));
    EXPECT_NE(verify().message().find("does not have"), std::string::npos)
        << verify().message();
    plan_.residency.insert(plan_.residency.begin() + long(i), kept);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PlanOrder,
                         ::testing::Values("4090+xeon", "2x4090+xeon"),
                         [](const auto &info) {
                           return info.index == 0 ? "OneGpu" : "TwoGpus";
                         });

} // namespace
