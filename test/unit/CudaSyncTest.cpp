// Experts on the CPU, the rest on a software GPU: how they wait for each other
// within a step.

#include "test/unit/CudaDeviceFixture.h"

#include <atomic>
#include <future>
#include <thread>

using namespace moert;
using namespace moetest;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

/// A device of the plan with hooks for tests.
class Interfering final : public Device {
public:
  using Hook = std::function<void(const StepControl &)>;
  /// The events of the phases that were bound last.
  static inline std::vector<StepEvents *> events;
  static void setPatience(std::chrono::nanoseconds patience) {
    for (StepEvents *each : events)
      each->setPatience(patience);
  }
  /// While `isLost`, the device does not take part in steps.
  Interfering(std::unique_ptr<Device> device, const Hook &before,
              const bool &isLost)
      : device_(std::move(device)), before_(before), isLost_(isLost) {}
  /// Checks that all pages of the device are freed when it ends.
  ~Interfering() override {
    EXPECT_THAT(softcuda::live(),
                testing::Not(testing::Contains(HasSubstr("registered"))));
  }

  Status reserve() override { return device_->reserve(); }
  Status load(const LoadProgress &progress) override {
    return device_->load(progress);
  }
  Status bind(const ProvenPhase &phase, std::span<std::byte *const> arenas,
              StepEvents *events) override {
    if (events)
      Interfering::events.push_back(events);
    return device_->bind(phase, arenas, events);
  }
  void unbind() override { device_->unbind(); }
  std::byte *hostArena() const override { return device_->hostArena(); }
  int32_t threads() const override { return device_->threads(); }
  bool borrowsCaller() const override { return device_->borrowsCaller(); }
  Status prepare(uint32_t phase, const moek::Step &step,
                 const StepControl &control) override {
    return device_->prepare(phase, step, control);
  }
  Status enqueue(uint32_t phase, const moek::Step &step,
                 const StepControl &control) override {
    if (before_ && control.events)
      before_(control);
    return isLost_ ? Status::ok() : device_->enqueue(phase, step, control);
  }
  Status wait() override { return isLost_ ? Status::ok() : device_->wait(); }
  Status runAlone(uint32_t phase, uint32_t instruction, const moek::Step &step,
                  const std::atomic<bool> *cancel) override {
    return device_->runAlone(phase, instruction, step, cancel);
  }
  StatusOr<std::span<const std::byte>> read(DeviceRegion from) override {
    return device_->read(from);
  }
  Status write(DeviceRegion to, std::span<const std::byte> bytes) override {
    return device_->write(to, bytes);
  }
  Status copy(DeviceRegion from, uint64_t to) override {
    return device_->copy(from, to);
  }

private:
  std::unique_ptr<Device> device_;
  const Hook &before_;
  const bool &isLost_;
};

struct SyncParam {
  Timing timing;
  bool isFused;
};
void PrintTo(const SyncParam &param, std::ostream *out) {
  *out << int(param.timing) << (param.isFused ? " fused" : "");
}

class CudaSyncTest : public CudaDeviceFixture,
                     public ::testing::WithParamInterface<SyncParam> {
protected:
  Timing timing() const override { return GetParam().timing; }
  bool isFused() const override { return GetParam().isFused; }

  /// Called before the CPU begins its part of a step.
  Interfering::Hook beforeCpu_;
  bool isLost_ = false;
  /// Hooks for device number `index`.
  EngineOptions interfering(size_t index = 0) {
    EngineOptions options = onSoftCuda();
    options.makeDevices = [this, index, make = options.makeDevices](
                              const Plan &plan, const WeightFiles &files,
                              DeviceOptions of) -> StatusOr<DeviceList> {
      MOE_ASSIGN_OR_RETURN(DeviceList made, make(plan, files, std::move(of)));
      made[index] = std::make_unique<Interfering>(std::move(made[index]),
                                                  beforeCpu_, isLost_);
      return made;
    };
    return options;
  }
  /// Returns the number of stores of all kernels; waiting does not store.
  static uint64_t work() {
    uint64_t sum = 0;
    for (const auto &[name, counters] : softcuda::totals().kernels)
      sum += counters.globalStores.requests;
    return sum;
  }
  /// Graph nodes of a decoded token, with the copies of steps that wait: the
  /// same count as in test/compile/gpu_steps.py, which reads a plan's text.
  struct Nodes {
    uint64_t kernels = 0, waits = 0, all = 0, within = 0;
  };
  Nodes nodesOfAToken() {
    Nodes nodes;
    for (const auto &phase : plan().phases) {
      size_t waits = 0; // Number of waits of the next launch's instructions.
      for (const auto &i : phase->instructions) {
        if (plan().devices[plan().queues[i->queue]->device]->kind !=
                fb::DeviceKind::Cuda ||
            phase->name == "prefill")
          continue;
        nodes.waits += i->waits.size();
        waits += i->waits.size();
        if (i->launches.empty())
          continue;
        const fb::Launch &one = i->launches[0];
        const std::string &entry = plan().modules[one.module_()]->entry;
        bool isFused = entry.starts_with("fused__");
        bool awaits =
            isFused && waits == 1 && one.grid_x() == 1 && one.grid_y() == 1;
        bool tells = isFused && i->signal >= 0 &&
                     entry.find("__all_") != std::string::npos;
        nodes.kernels += i->launches.size();
        nodes.within += awaits + tells;
        nodes.all += i->launches.size() + (awaits ? 0 : waits + (waits > 0)) +
                     (i->signal >= 0 && !tells);
        waits = 0;
      }
    }
    return nodes;
  }
  static uint64_t calls(const char *symbol) {
    softcuda::Totals totals = softcuda::totals();
    return totals.calls[symbol];
  }
};

INSTANTIATE_TEST_SUITE_P(Timings, CudaSyncTest,
                         ::testing::Values(SyncParam{Timing::Early, false},
                                           SyncParam{Timing::Late, false},
                                           SyncParam{Timing::Seeded, false},
                                           SyncParam{Timing::Early, true},
                                           SyncParam{Timing::Late, true},
                                           SyncParam{Timing::Seeded, true}),
                         [](const auto &info) {
                           Timing timing = info.param.timing;
                           return std::string(timing == Timing::Early ? "Early"
                                              : timing == Timing::Late
                                                  ? "Late"
                                                  : "Seeded") +
                                  (info.param.isFused ? "Fused" : "");
                         });

// The host launches the graph and waits for its end; waits in between are for
// flags in memory.
TEST_P(CudaSyncTest, DecodeIsOneGraphWithTheCpuInside) {
  SOFTWARE_ONLY();
  split(1);
  auto one = open();
  expectDecode(one, 0, 2); // Single launches at first, then the capture.
  softcuda::Totals before = softcuda::totals();
  EXPECT_EQ(before.captures, 2u); // One for decode, and one for logits.
  expectDecode(one, 2, 3);
  softcuda::Totals after = softcuda::totals();
  EXPECT_EQ(after.captures, before.captures);
  EXPECT_EQ(after.graphLaunches - before.graphLaunches, 2u * 3);
  EXPECT_EQ(after.calls["cuLaunchKernel"], before.calls["cuLaunchKernel"]);
  EXPECT_EQ(after.calls["cuLaunchHostFunc"], 0u);
  Nodes token = nodesOfAToken();
  EXPECT_EQ(after.graphNodes - before.graphNodes, 3 * token.all);
  EXPECT_EQ(token.within > 1, isFused()) << token.within;
  EXPECT_EQ(after.launches - before.launches, 3 * token.kernels);
  EXPECT_EQ(after.allocations, before.allocations);
  // In a step, one thread waits for each graph, and the queue waits itself.
  EXPECT_LE(after.calls["cuEventSynchronize"] -
                before.calls["cuEventSynchronize"],
            4u * 3);
}

TEST_P(CudaSyncTest, UsesHostFunctionsIfTheGpuCannotWaitForFlags) {
  SOFTWARE_ONLY();
  softcuda::options().failures["cuStreamWaitValue32_v2"] = 801;
  split(1);
  auto one = open();
  expectDecode(one, 0, 4);
  // A launch that waits by itself needs no host functions.
  EXPECT_EQ(calls("cuLaunchHostFunc") > 0, !isFused());
  softcuda::options().failures.clear();
}

// Host functions of two queues could wait for each other, so a thread issues
// the launches.
TEST_P(CudaSyncTest, AThreadIssuesLaunchesIfNothingElseWorks) {
  SOFTWARE_ONLY();
  softcuda::options().failures["cuStreamWaitValue32_v2"] = 801;
  split(2);
  auto one = open();
  expectDecode(one, 0, 4);
  EXPECT_EQ(calls("cuLaunchHostFunc"), 0u);
  softcuda::options().failures.clear();
}

TEST_P(CudaSyncTest, TwoQueuesWaitByFlagsToo) {
  SOFTWARE_ONLY();
  split(2);
  auto one = open();
  expectDecode(one, 0, 5);
  EXPECT_GT(calls("cuStreamWriteValue32_v2"), 0u);
}

TEST_P(CudaSyncTest, PrefillIsOneGraphToo) {
  SOFTWARE_ONLY();
  split(1);
  auto one = open();
  for (int round = 0; round < 3; ++round) {
    expectPrefill(one);
    ASSERT_TRUE(one.sequence.rewind(0).isOk());
  }
  EXPECT_EQ(calls("cuStreamWaitValue32_v2") > 0, !isFused());
}

// A launch ends when the GPU's queue has room for it, behind waits for a CPU
// that has to begin its part of the step.
TEST_P(CudaSyncTest, AFullLaunchQueueDoesNotHoldUpTheCpu) {
  SOFTWARE_ONLY();
  split(1);
  auto one = open();
  expectDecode(one, 0, 2);
  softcuda::options().queueDepth = 2;
  auto steps = std::async(std::launch::async, [&] { expectDecode(one, 2, 3); });
  if (steps.wait_for(std::chrono::seconds(20)) != std::future_status::ready)
    ADD_FAILURE() << "the step does not end";
  softcuda::options().queueDepth = 1024;
}

// Whatever the reason for which the driver makes no graph, steps go on, and the
// user hears of it.
TEST_P(CudaSyncTest, AnyFailureOfAGraphIsSurvived) {
  SOFTWARE_ONLY();
  for (auto [symbol, result] : {std::pair("cuGraphInstantiateWithFlags", 1),
                                std::pair("cuStreamBeginCapture_v2", 800)}) {
    SCOPED_TRACE(symbol);
    softcuda::options().failures[symbol] = result;
    SamplePlan fresh{"ref"};
    sample_ = std::move(fresh);
    split(1);
    std::vector<std::string> notes;
    EngineOptions options = onSoftCuda();
    options.cuda.note = [&](const std::string &text) { notes.push_back(text); };
    auto one = open(options);
    expectDecode(one, 0, 4);
    ASSERT_FALSE(notes.empty());
    EXPECT_THAT(notes[0], AllOf(HasSubstr("gpu1"), HasSubstr("a thread of the "
                                                             "host")));
    softcuda::options().failures.clear();
  }
}

TEST_P(CudaSyncTest, TheUserChoosesHowTheGpuWaits) {
  SOFTWARE_ONLY();
  for (CudaSync sync : {CudaSync::HostFunctions, CudaSync::Walk}) {
    SamplePlan fresh{"ref"};
    sample_ = std::move(fresh);
    split(1);
    EngineOptions options = onSoftCuda();
    options.cuda.sync = sync;
    uint64_t before = calls("cuLaunchHostFunc");
    auto one = open(options);
    expectDecode(one, 0, 4);
    EXPECT_EQ(calls("cuStreamWaitValue32_v2"), 0u);
    EXPECT_EQ(calls("cuLaunchHostFunc") > before,
              sync == CudaSync::HostFunctions);
  }
}

// Each core has a worker, which a thread that waits for the GPU would disturb.
TEST_P(CudaSyncTest, NobodySpinsForTheGpuBesideTheCpu) {
  SOFTWARE_ONLY();
  split(1);
  auto one = open();
  expectDecode(one, 0, 2);
  uint64_t before = softcuda::totals().busyWaits;
  expectDecode(one, 2, 2);
  // Only reading the logits of a step, which has ended, takes this time.
  EXPECT_LE(softcuda::totals().busyWaits - before, 4u);
}

// One of the two never begins its part, and the other waits for it.
TEST_P(CudaSyncTest, AWaitWithoutEndAbandonsTheStep) {
  SOFTWARE_ONLY();
  for (size_t lost : {0, 1}) {
    SCOPED_TRACE(lost);
    SamplePlan fresh{"ref"};
    sample_ = std::move(fresh);
    split(1);
    Interfering::events.clear();
    auto one = open(interfering(lost));
    expectDecode(one, 0, 2);
    isLost_ = true;
    Interfering::setPatience(std::chrono::milliseconds(100));
    auto logits = one.append(tokens[2]);
    Interfering::setPatience(std::chrono::minutes(2));
    isLost_ = false;
    ASSERT_FALSE(logits.isOk());
    EXPECT_EQ(logits.status().code(), StatusCode::Io);
    EXPECT_THAT(logits.status().message(), HasSubstr("--gpu-meeting walk"));
    ASSERT_TRUE(one.sequence.rewind(2).isOk());
    expectDecode(one, 2, 2);
  }
}

// A driver that ends kernels after two seconds must not see one that waits.
TEST_P(CudaSyncTest, LaunchesDoNotWaitOnAGpuWithADisplay) {
  SOFTWARE_ONLY();
  softcuda::Options options = softcuda::options();
  options.gpus[0].hasTimeLimit = true;
  softcuda::reset(options);
  split(1);
  auto one = open();
  expectDecode(one, 0, 4);
  EXPECT_GT(calls("cuStreamWaitValue32_v2"), 0u);
}

// If a step is cancelled, the GPU must not compute from missing data or wait
// forever, and the next step is as if nothing had happened.
TEST_P(CudaSyncTest, ACancelledStepEndsOnAllDevices) {
  SOFTWARE_ONLY();
  split(1);
  auto one = open(interfering());
  expectDecode(one, 0, 2);
  // Runs the decode phase without logits.
  auto decode = [&](Status &status) {
    uint64_t before = work();
    Request request{&one.sequence, {&tokens[2], 1}, Request::Logits::None};
    Status all =
        one.engine->step({&request, 1}, [](auto...) { return Status::ok(); });
    EXPECT_TRUE(all.isOk()) << all.message();
    status = request.status;
    return work() - before;
  };
  Status status;
  uint64_t whole = decode(status);
  EXPECT_TRUE(status.isOk()) << status.message();
  ASSERT_TRUE(one.sequence.rewind(2).isOk());
  beforeCpu_ = [](const StepControl &control) { control.events->stop(); };
  uint64_t part = decode(status);
  beforeCpu_ = nullptr;
  EXPECT_EQ(status.code(), StatusCode::Cancelled);
  EXPECT_LT(part, whole); // Work after the wait had no tokens.
  expectDecode(one, 2, 2);
}

// Another thread stops the step, at various times.
TEST_P(CudaSyncTest, AStepIsCancelledAtAnyTime) {
  SOFTWARE_ONLY();
  split(1);
  auto one = open(interfering());
  expectDecode(one, 0, 2);
  for (int delay = 0; delay < 8; ++delay) {
    std::thread stopper;
    beforeCpu_ = [&](const StepControl &control) {
      stopper = std::thread([delay, events = control.events] {
        std::this_thread::sleep_for(std::chrono::microseconds(500 * delay));
        events->stop();
      });
    };
    // The step may have ended before it was stopped.
    auto given = one.append(tokens[2]);
    stopper.join();
    beforeCpu_ = nullptr;
    if (!given.isOk()) {
      EXPECT_EQ(given.status().code(), StatusCode::Cancelled)
          << given.status().message();
    }
    ASSERT_TRUE(one.sequence.rewind(2).isOk());
    expectDecode(one, 2, 1);
    ASSERT_TRUE(one.sequence.rewind(2).isOk());
  }
}

// The CPU waits for flags that will never be written.
TEST_P(CudaSyncTest, AGpuLostInAStepReleasesTheCpu) {
  SOFTWARE_ONLY();
  split(1);
  auto one = open();
  expectDecode(one, 0, 2);
  // So long that nothing runs that would set flags.
  softcuda::options().idleMilliseconds = 1 << 20;
  softcuda::options().failures["cuEventSynchronize"] = 719;
  auto logits = one.append(tokens[2]);
  softcuda::options().failures.clear();
  ASSERT_FALSE(logits.isOk());
  EXPECT_EQ(logits.status().code(), StatusCode::Io);
  EXPECT_THAT(logits.status().message(),
              AllOf(HasSubstr("waiting for the GPU"), HasSubstr("gpu1")));
}

TEST_P(CudaSyncTest, SingleInstructionsAreTimed) {
  split(1);
  auto one = open();
  expectDecode(one, 0, 3); // The graphs exist already.
  size_t steps = 0;
  one.engine->setObserver([&](const PhaseRun &times) {
    ++steps;
    for (const auto &phase : plan().phases)
      for (size_t i = 0;
           phase->name == nameOf(times.phase) && i < phase->instructions.size();
           ++i)
        if (phase->instructions[i]->queue == 1 &&
            !phase->instructions[i]->launches.empty()) {
          EXPECT_GT(times.instructions[i].run, 0)
              << nameOf(times.phase) << " " << i;
        }
  });
  expectDecode(one, 3, 1);
  EXPECT_EQ(steps, 2u); // One for decode, and one for logits.
}

// From sm_90 on a launch may begin while the one before ends; the software GPU
// checks that each waits by itself. A driver may refuse such graphs.
TEST_P(CudaSyncTest, LaunchesOverlapWhereTheGpuCan) {
  SOFTWARE_ONLY();
  for (auto [arch, refused] :
       {std::pair(89, false), std::pair(90, false), std::pair(90, true)}) {
    SCOPED_TRACE(arch);
    SamplePlan fresh{"ref"};
    sample_ = std::move(fresh);
    softcuda::Options options = softcuda::options();
    options.gpus[0].gpu.arch = arch;
    options.failures.clear();
    if (refused)
      options.failures["cuLaunchKernelEx"] = 801;
    softcuda::reset(options);
    splitPlan(plan(), apartFromExperts);
    makeGpu(plan(), 1, arch, 1);
    auto one = OneSequence::open(write(arch), onSoftCuda());
    ASSERT_TRUE(one.isOk()) << one.status().message();
    expectDecode(*one, 0, 4);
    EXPECT_EQ(softcuda::totals().overlappedLaunches > 0,
              arch == 90 && !refused);
  }
}

/// Results do not depend on the order of operations.
class CudaBitsTest : public CudaDeviceFixture {
protected:
  Timing timing() const override { return Timing::Early; }
  bool isFused() const override { return isFused_; }
  bool isFused_ = false;

  void expectSameBits(size_t gpus) {
    std::string path = write();
    std::vector<std::vector<float>> expected;
    for (auto [timing, seed] :
         {std::pair(Timing::Early, 1), std::pair(Timing::Late, 1),
          std::pair(Timing::Seeded, 1), std::pair(Timing::Seeded, 2),
          std::pair(Timing::Seeded, 3)}) {
      EXPECT_THAT(softcuda::findings(), testing::IsEmpty());
      start(planArch(), 13000, gpus);
      softcuda::Options options = softcuda::options();
      options.timing = timing;
      options.seed = uint64_t(seed);
      softcuda::reset(std::move(options));
      std::vector<std::vector<float>> rows;
      auto one = OneSequence::open(path, onSoftCuda());
      ASSERT_TRUE(one.isOk()) << one.status().message();
      for (size_t t = 0; t < 4; ++t) {
        auto logits = one->append(tokens[t]);
        ASSERT_TRUE(logits.isOk()) << logits.status().message();
        rows.emplace_back(logits->begin(), logits->end());
      }
      if (expected.empty())
        expected = rows;
      EXPECT_EQ(rows, expected) << int(timing) << ", " << seed;
    }
  }
};

TEST_F(CudaBitsTest, EveryScheduleGivesTheSameBits) {
  SOFTWARE_ONLY();
  split(2);
  expectSameBits(1);
}

// It does not matter either whether launches or separate nodes wait for the CPU
// and signal it.
TEST_F(CudaBitsTest, WithLaunchesThatWaitForTheCpuToo) {
  SOFTWARE_ONLY();
  split(1);
  isFused_ = true;
  expectSameBits(1);
}

TEST_F(CudaBitsTest, OnTwoGpusToo) {
  SOFTWARE_ONLY();
  splitGpus();
  expectSameBits(2);
  // No GPU waits for another's while the other's graph is being made.
  EXPECT_EQ(softcuda::totals().instantiatedBusy, 0u);
}

} // namespace
