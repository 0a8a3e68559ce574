// One plan on two CPU devices gives the same bits as on one, with any schedule,
// and the plan needs all of its waits and barriers.
#include "runtime/device/Devices.h"

#include "runtime/engine/MakeDevices.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Verify.h"
#include "test/support/Delays.h"
#include "test/support/OneSequence.h"
#include "test/support/SamplePlan.h"
#include "test/support/SplitPlan.h"

#include <gtest/gtest.h>
#include <optional>
#include <random>

using namespace moert;
using moetest::delays;
using moetest::OneSequence;
using moetest::SamplePlan;
using moetest::TempDir;
namespace fb = moert::fb;

namespace {

bool isExperts(const fb::InstructionT &instruction) {
  return findOp(instruction.op)->name.starts_with("expert");
}

struct Split {
  const char *name;
  /// Called once per plan.
  std::function<moetest::DeviceChoice()> choice;
};
void PrintTo(const Split &split, std::ostream *out) { *out << split.name; }

const Split splits[] = {
    {"Experts",
     [] {
       return [](const fb::PhaseT &, const fb::InstructionT &instruction) {
         return uint32_t(isExperts(instruction));
       };
     }},
    // The sample has only one layer, so attention and the ops after it stand
    // for two layers.
    {"Layers",
     [] {
       auto after = std::make_shared<bool>(false);
       return [after](const fb::PhaseT &, const fb::InstructionT &instruction) {
         std::string_view op = findOp(instruction.op)->name;
         *after = op != "embed" && (*after || op == "activation_mul");
         return uint32_t(*after);
       };
     }},
    {"Phases",
     [] {
       return [](const fb::PhaseT &phase, const fb::InstructionT &) {
         return uint32_t(phase.name == "prefill");
       };
     }},
    {"Random", [] {
       auto random = std::make_shared<std::mt19937>(11);
       return [random](const fb::PhaseT &, const fb::InstructionT &) {
         return uint32_t((*random)() % 2);
       };
     }}};

/// Devices with any number of workers, without an engine.
class Machine {
public:
  Machine(SamplePlan &sample, int threads,
          decltype(DeviceOptions::instrument) instrument) {
    StatusOr<Plan> plan = Plan::load(sample.builder.write(folder_));
    EXPECT_TRUE(plan.isOk()) << plan.status().message();
    plan_ = std::make_unique<Plan>(*std::move(plan));
    files_.emplace(*WeightFiles::open(*plan_, {}));
    DeviceOptions options;
    options.threads = threads;
    options.instrument = std::move(instrument);
    auto made = makeDevices(*plan_, *files_, std::move(options));
    EXPECT_TRUE(made.isOk()) << made.status().message();
    auto devices = Devices::create(*plan_, *files_, *std::move(made));
    EXPECT_TRUE(devices.isOk()) << devices.status().message();
    devices_ = *std::move(devices);
    for (const RunnablePhase &phase : devices_->phases())
      (phase.kind == PhaseKind::Decode    ? decode_
       : phase.kind == PhaseKind::Prefill ? prefill_
                                          : head_) = phase;
  }

  /// The logits after the last of `tokens`, which follow `position` others.
  StatusOr<std::vector<float>> run(std::vector<int32_t> tokens,
                                   int32_t position,
                                   const std::atomic<bool> *cancel = nullptr) {
    const RunnablePhase &phase = tokens.size() > 1 ? prefill_ : decode_;
    auto rows = int32_t(tokens.size());
    MOE_RETURN_IF_ERROR(
        devices_->setInput(phase, std::as_bytes(std::span(tokens))));
    MOE_RETURN_IF_ERROR(devices_->run(phase, {rows, position}, cancel));
    MOE_ASSIGN_OR_RETURN(std::span<const float> hidden,
                         devices_->output(phase, rows));
    MOE_RETURN_IF_ERROR(devices_->setInput(
        head_, std::as_bytes(hidden.last(SamplePlan::kHidden))));
    MOE_RETURN_IF_ERROR(devices_->run(head_, {1, 0}, cancel));
    MOE_ASSIGN_OR_RETURN(std::span<const float> logits,
                         devices_->output(head_, 1));
    return std::vector<float>(logits.begin(), logits.end());
  }

private:
  TempDir folder_;
  std::unique_ptr<Plan> plan_;
  std::optional<WeightFiles> files_;
  std::unique_ptr<Devices> devices_;
  RunnablePhase decode_, prefill_, head_;
};

const std::vector<int32_t> prompt = {3, 17, 0, 8};

class DevicesTest : public ::testing::TestWithParam<Split> {
protected:
  static std::vector<float> logitsOf(SamplePlan &sample, int threads,
                                     uint32_t seed = 0) {
    Machine machine(sample, threads,
                    seed ? delays(seed) : decltype(delays(seed))());
    std::vector<float> all;
    for (int round = 0; round < 2; ++round) {
      auto position = int32_t(prompt.size());
      auto logits = machine.run(prompt, 0);
      for (int32_t next : {7, 30, 1, 1, 39}) {
        EXPECT_TRUE(logits.isOk()) << logits.status().message();
        if (!logits)
          return all;
        all.insert(all.end(), logits->begin(), logits->end());
        logits = machine.run({next}, position++);
      }
    }
    return all;
  }
  void split(SamplePlan &sample) {
    moetest::splitPlan(sample.builder.plan, GetParam().choice());
  }
  static Status verify(SamplePlan &sample) {
    StatusOr<Plan> plan = Plan::fromBytes(sample.builder.bytes(), "plan.fb");
    if (!plan)
      return plan.status();
    for (const fb::Phase *phase : *plan->table().phases())
      MOE_RETURN_IF_ERROR(verifyDataflow(plan->table(), *phase));
    return Status::ok();
  }
};

TEST_P(DevicesTest, TwoComputeTheSameBits) {
  SamplePlan one, two;
  split(two);
  std::vector<float> expected = logitsOf(one, 1);
  ASSERT_FALSE(expected.empty());
  for (int threads : {2, 3, 5})
    EXPECT_EQ(logitsOf(two, threads), expected) << threads << " threads";
}

TEST_P(DevicesTest, DelaysInEveryQueueDoNotChangeBits) {
  SamplePlan one, two;
  split(two);
  std::vector<float> expected = logitsOf(one, 1);
  for (uint32_t seed = 1; seed <= 6; ++seed)
    EXPECT_EQ(logitsOf(two, 2 + int(seed % 3), seed), expected)
        << "seed " << seed;
}

TEST_P(DevicesTest, EveryWaitAndBarrierIsNeeded) {
  SamplePlan sample;
  split(sample);
  Status status = verify(sample);
  ASSERT_TRUE(status.isOk()) << status.message();
  size_t waits = 0;
  for (auto &phase : sample.builder.plan.phases)
    for (auto &instruction : phase->instructions) {
      for (size_t i = 0; i < instruction->waits.size(); ++i, ++waits) {
        auto kept = instruction->waits;
        instruction->waits.erase(instruction->waits.begin() + long(i));
        EXPECT_NE(verify(sample).message().find("between them"),
                  std::string::npos)
            << verify(sample).message();
        instruction->waits = kept;
      }
      if (std::exchange(instruction->barrier, false)) {
        EXPECT_FALSE(verify(sample).isOk());
        instruction->barrier = true;
      }
    }
  EXPECT_GT(waits, 0u);
}

TEST_P(DevicesTest, EventsCannotBeExchanged) {
  SamplePlan sample;
  split(sample);
  for (auto &phase : sample.builder.plan.phases) {
    std::vector<fb::InstructionT *> signals;
    for (auto &instruction : phase->instructions) {
      if (instruction->signal >= 0)
        signals.push_back(instruction.get());
      // An earlier event does not suffice, but a later one would.
      for (uint32_t &event : instruction->waits) {
        if (event == 0)
          continue;
        --event;
        EXPECT_FALSE(verify(sample).isOk()) << "event " << event;
        ++event;
      }
    }
    for (size_t i = 1; i < signals.size(); ++i) {
      std::swap(signals[i - 1]->signal, signals[i]->signal);
      EXPECT_FALSE(verify(sample).isOk());
      std::swap(signals[i - 1]->signal, signals[i]->signal);
    }
    for (fb::InstructionT *signal : signals) {
      int32_t event = std::exchange(signal->signal, -1);
      EXPECT_FALSE(verify(sample).isOk()) << "event " << event;
      signal->signal = event;
    }
  }
}

/// Sets a flag that cancels the step that it runs in.
struct Canceller {
  moek::KernelFn kernel;
  const void *args;
  std::atomic<bool> *cancel;
};
void runAndCancel(const void *args, const moek::Step &step,
                  const moek::Worker &worker) {
  const auto &canceller = *static_cast<const Canceller *>(args);
  canceller.cancel->store(true);
  canceller.kernel(canceller.args, step, worker);
}

// Cancelling at any instruction of either device ends the step on both, and the
// next step runs normally.
TEST_P(DevicesTest, ACancelledStepEndsOnAllDevices) {
  SamplePlan one, two;
  split(two);
  size_t instructions = two.phase("prefill").instructions.size();
  std::vector<float> expected = logitsOf(one, 1);
  size_t cancelled = 0;
  for (size_t at = 0; at < instructions; ++at) {
    std::atomic<bool> cancel = false;
    Machine machine(
        two, 3,
        [&](BoundInstruction &instruction, ArgumentStore &store, size_t) {
          if (instruction.index != at)
            return;
          instruction.args = store.keep(
              Canceller{instruction.kernel, instruction.args, &cancel});
          instruction.kernel = runAndCancel;
        });
    auto logits = machine.run(prompt, 0, &cancel);
    cancelled += !logits && logits.status().code() == StatusCode::Cancelled;
    logits = machine.run(prompt, 0);
    ASSERT_TRUE(logits.isOk()) << logits.status().message();
    ASSERT_EQ(*logits,
              std::vector<float>(expected.begin(),
                                 expected.begin() + SamplePlan::kVocab))
        << "cancelled at " << at;
  }
  EXPECT_GT(cancelled, instructions / 2);
}

// The messages are the same as for a plan on one device.
TEST_P(DevicesTest, ValuesThatAreNotFiniteAreFoundOnEitherDevice) {
  for (const char *weight : {"wo", "down", "dense_down"}) {
    SamplePlan sample;
    split(sample);
    for (int64_t row = 0; row < 3; ++row)
      sample.fillRow(weight, 0, row, NAN);
    if (std::string_view(weight) == "down")
      for (int64_t matrix = 1; matrix < SamplePlan::kExperts; ++matrix)
        sample.fillRow(weight, matrix, 0, NAN);
    TempDir folder;
    EngineOptions options;
    options.threads = 2;
    auto one = OneSequence::open(sample.builder.write(folder), options);
    ASSERT_TRUE(one.isOk()) << one.status().message();
    Status status = one->append(3).status();
    EXPECT_EQ(status.code(), StatusCode::InvalidFile);
    EXPECT_NE(status.message().find(weight), std::string::npos)
        << status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Splits, DevicesTest, ::testing::ValuesIn(splits),
                         [](const auto &info) { return info.param.name; });

TEST(TeamsTest, CoresAreShared) {
  SamplePlan sample;
  auto teams = [&](std::vector<int32_t> cores, int threads) {
    fb::PlanT &plan = sample.builder.plan;
    plan.devices.resize(1);
    plan.devices[0]->cores = cores[0];
    for (size_t i = 1; i < cores.size(); ++i) {
      plan.devices.push_back(std::make_unique<fb::DeviceT>(*plan.devices[0]));
      plan.devices[i]->cores = cores[i];
    }
    auto bytes = sample.builder.bytes();
    return workersByDevice(*fb::GetPlan(bytes.data()), threads);
  };
  EXPECT_EQ(teams({8}, 5), std::vector<int32_t>{5});
  EXPECT_EQ(teams({1, 1}, 2), (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(teams({12, 4}, 16), (std::vector<int32_t>{12, 4}));
  EXPECT_EQ(teams({12, 4}, 8), (std::vector<int32_t>{6, 2}));
  EXPECT_EQ(teams({30, 1, 1}, 8), (std::vector<int32_t>{6, 1, 1}));
  EXPECT_EQ(teams({1, 1}, 1), (std::vector<int32_t>{1, 1}));
}

} // namespace
