// The executor without devices: timing of instructions, and cancelling.
#include "runtime/device/cpu/Executor.h"

#include "runtime/prove/Prove.h"
#include "runtime/schema/plan_generated.h"
#include "test/support/SamplePlan.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <set>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

/// The sample plan's decode phase, bound by hand.
class ExecutorTest : public ::testing::Test {
protected:
  void SetUp() override {
    load();
    executor_.emplace(bindTeam(1));
  }

  void load() {
    StatusOr<Plan> plan = Plan::load(sample_.builder.write(folder_));
    ASSERT_TRUE(plan.isOk()) << plan.status().message();
    plan_.emplace(*std::move(plan));
    StatusOr<WeightFiles> files = WeightFiles::open(*plan_, {});
    ASSERT_TRUE(files.isOk()) << files.status().message();
    files_.emplace(*std::move(files));
    const fb::Device &device = *plan_->table().devices()->Get(0);
    arena_ = *HostMemory::allocate(device.arena_bytes(), "activations");
    kv_ = *HostMemory::allocate(device.kv_bytes(), "the cache");
  }

  Executor makeExecutor(int32_t team, std::vector<int> nodes = {},
                        TeamSensors sensors = {}) {
    const fb::Device &device = *plan_->table().devices()->Get(0);
    StatusOr<Executor> executor = Executor::create(
        *WorkerPool::create(team),
        {device.worker_bytes(), device.scratch_bytes()},
        {.nodes = std::move(nodes), .sensors = std::move(sensors)});
    EXPECT_TRUE(executor.isOk()) << executor.status().message();
    return *std::move(executor);
  }

  StatusOr<BoundPhase> bind(const fb::Phase &phase,
                            std::span<std::byte *const> workers) {
    MOE_ASSIGN_OR_RETURN(ProvenPhase proven,
                         provePhase(*plan_, phase, *files_));
    std::byte *arena = arena_.data();
    return bindPhase(*plan_, proven, 0, {{&arena, 1}, kv_.data(), workers},
                     *files_);
  }

  /// Makes an executor with `team` workers, and binds the phase to them.
  Executor bindTeam(int32_t team, std::vector<int> nodes = {},
                    TeamSensors sensors = {}) {
    Executor executor =
        makeExecutor(team, std::move(nodes), std::move(sensors));
    const fb::Phase &table = *plan_->table().phases()->Get(0);
    StatusOr<BoundPhase> phase = bind(table, executor.workerBuffers());
    auto address = [&](uint32_t buffer) {
      return arena_.data() + table.buffers()->Get(buffer)->offset();
    };
    input_ = address(table.input());
    output_ = reinterpret_cast<float *>(address(table.output()));
    EXPECT_TRUE(phase.isOk()) << phase.status().message();
    phase_.emplace(*std::move(phase));
    return executor;
  }

  /// Returns the results of 20 steps by a new executor with `team` workers.
  std::vector<float> hiddenRows(int32_t team, std::vector<int> nodes = {}) {
    Executor executor = bindTeam(team, std::move(nodes));
    return hiddenRows(executor);
  }
  std::vector<float> hiddenRows(Executor &executor) {
    std::vector<float> rows;
    for (int32_t position = 0; position < 20; ++position) {
      // The token ids are equal to the positions.
      std::memcpy(input_, &position, sizeof(position));
      EXPECT_TRUE(executor.run(*phase_, {1, position}).isOk());
      teams_.insert(executor.lastTeam());
      rows.insert(rows.end(), output_, output_ + SamplePlan::kHidden);
    }
    return rows;
  }

  TempDir folder_;
  SamplePlan sample_;
  std::optional<Plan> plan_;
  std::optional<WeightFiles> files_;
  HostMemory arena_, kv_;
  std::optional<BoundPhase> phase_;
  std::byte *input_ = nullptr;
  float *output_ = nullptr;
  std::optional<Executor> executor_;
  std::set<int32_t> teams_; ///< Numbers of workers that steps have used.
};

/// Workers that alternately queue for a CPU and do not, with long pauses
/// between steps, so that the number of workers changes every few steps.
TeamSensors restlessSensors() {
  struct State {
    double now = 0, queued = 0;
    int looks = 0, readings = 0;
  };
  auto state = std::make_shared<State>();
  return {[=] {
            bool begins = state->looks++ % 2 == 0;
            double pause = state->looks % 7 == 0 ? 100 : 0;
            double step = 0.006 + 0.004 * (state->readings % 3);
            return state->now += begins ? pause : step;
          },
          [=] { // The load is half a core in every second window.
            bool busy = state->readings++ / 7 % 2 == 0;
            return CpuLoad{state->queued += busy ? 0.008 : 0};
          }};
}

TEST_F(ExecutorTest, TimesEveryInstruction) {
  std::vector<InstructionTime> times(phase_->instructions.size());
  for (int32_t position = 0; position < 3; ++position)
    ASSERT_TRUE(executor_->run(*phase_, {1, position}, nullptr, times).isOk());
  double sum = 0;
  for (const InstructionTime &time : times) {
    EXPECT_GE(time.run, 0);
    EXPECT_GE(time.wait, 0);
    sum += time.run + time.wait;
  }
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum, 10);
}

TEST_F(ExecutorTest, RunsTheListToItsEnd) {
  float *output = output_;
  std::fill_n(output, SamplePlan::kHidden, 1e30f);
  ASSERT_TRUE(executor_->run(*phase_, {1, 0}).isOk());
  for (int i = 0; i < SamplePlan::kHidden; ++i)
    EXPECT_LT(std::abs(output[i]), 1e6f);
}

// Many steps, because each step clears the tickets of the next.
TEST_F(ExecutorTest, TeamsAndMemoryNodesDoNotChangeBits) {
  std::vector<float> expected = hiddenRows(1);
  EXPECT_EQ(hiddenRows(2), expected);
  EXPECT_EQ(hiddenRows(3), expected);
  EXPECT_EQ(hiddenRows(2, {0, 1}), expected);
  EXPECT_EQ(hiddenRows(5, {0, 0, 2, 2, 2}), expected);
}

// Each worker computes a norm, the choice of experts and the results derived
// from it for itself, without a barrier before their readers.
TEST_F(ExecutorTest, BuffersPerWorkerDoNotChangeBits) {
  std::vector<float> expected = hiddenRows(1);
  for (const char *buffer : {"n", "ids", "weights", "offsets", "slots"})
    sample_.makePerWorker("decode", buffer);
  for (const char *op :
       {"linear", "expert_group", "experts_gate_up", "quantize"})
    sample_.dropBarrier("decode", op);
  load();
  for (int32_t team : {1, 2, 3, 5})
    EXPECT_EQ(hiddenRows(team), expected) << team << " workers";
  EXPECT_EQ(hiddenRows(5, {0, 0, 2, 2, 2}), expected);
}

TEST_F(ExecutorTest, BuffersPerWorkerNeedWorkers) {
  sample_.makePerWorker("decode", "n");
  load();
  StatusOr<BoundPhase> phase = bind(*plan_->table().phases()->Get(0), {});
  ASSERT_FALSE(phase.isOk());
  EXPECT_EQ(phase.status().code(), StatusCode::Internal);
}

// The number of workers changes in the middle of a text, whose caches earlier
// workers have filled.
TEST_F(ExecutorTest, TeamsThatChangeDoNotChangeBits) {
  std::vector<float> expected = hiddenRows(1);
  for (const char *buffer : {"n", "ids", "weights", "offsets", "slots"})
    sample_.makePerWorker("decode", buffer);
  load();
  Executor executor = bindTeam(5, {}, restlessSensors());
  teams_.clear();
  for (int text = 0; text < 5; ++text)
    ASSERT_EQ(hiddenRows(executor), expected) << "text " << text;
  EXPECT_EQ(teams_, (std::set<int32_t>{1, 2, 3, 4, 5}));
}

// Each node's memory has the weights that its workers read, so all are needed.
TEST_F(ExecutorTest, WorkersOfSeveralNodesAllStay) {
  Executor executor = bindTeam(4, {0, 0, 1, 1}, restlessSensors());
  (void)hiddenRows(executor);
  EXPECT_EQ(teams_, std::set<int32_t>{4});
}

// Workers of a single node may be pinned too.
TEST_F(ExecutorTest, WorkersOfOneNodeNeedNotAllStay) {
  std::vector<float> expected = hiddenRows(1);
  Executor executor = bindTeam(3, {2, 2, 2}, restlessSensors());
  for (int text = 0; text < 2; ++text)
    ASSERT_EQ(hiddenRows(executor), expected) << "text " << text;
  EXPECT_TRUE(teams_.contains(1));
}

/// Draws two of the worker's own tickets, and remembers the first one.
void drawTickets(const void *args, const moek::Step &,
                 const moek::Worker &worker) {
  uint32_t &own = worker.tickets[worker.index * worker.ticketStride];
  auto *drawn = const_cast<uint32_t *>(static_cast<const uint32_t *>(args));
  drawn[worker.index] = own;
  own += 2;
}

// Two phases alternate, as decode and logits do.
TEST_F(ExecutorTest, EveryInstructionOfEveryStepBeginsWithUndrawnTickets) {
  constexpr size_t kTeam = 3;
  Executor executor = makeExecutor(kTeam);
  BoundPhase phases[2];
  std::vector<uint32_t> drawn(kTeam * 40);
  for (size_t i = 0; i < 40; ++i)
    for (BoundPhase &phase : phases)
      if (i < 20 || &phase == phases)
        phase.instructions.push_back(
            {drawTickets, drawn.data() + i * kTeam,
             uint8_t(i % 2 == 0 ? BoundInstruction::kBarrier : 0)});
  for (int step = 0; step < 9; ++step) {
    std::ranges::fill(drawn, 0u);
    ASSERT_TRUE(executor.run(phases[step % 3 == 1], {1, step}).isOk());
    EXPECT_EQ(drawn, std::vector<uint32_t>(kTeam * 40, 0u)) << "step " << step;
  }
}

// A worker that does not take part does not clear its own tickets.
TEST_F(ExecutorTest, TicketsAreUndrawnForWorkersThatComeBack) {
  constexpr size_t kTeam = 4;
  Executor executor = makeExecutor(kTeam, {}, restlessSensors());
  BoundPhase phase;
  std::vector<uint32_t> drawn(kTeam * 3);
  for (size_t i = 0; i < 3; ++i)
    phase.instructions.push_back(
        {drawTickets, drawn.data() + i * kTeam, BoundInstruction::kBarrier});
  std::set<int32_t> teams;
  for (int step = 0; step < 150; ++step) {
    std::ranges::fill(drawn, 0u);
    ASSERT_TRUE(executor.run(phase, {1, step}).isOk());
    ASSERT_EQ(drawn, std::vector<uint32_t>(kTeam * 3, 0u)) << "step " << step;
    teams.insert(executor.lastTeam());
  }
  EXPECT_GE(teams.size(), 3u);
}

TEST_F(ExecutorTest, ACancelledRunTouchesNothing) {
  std::fill_n(output_, SamplePlan::kHidden, 7.0f);
  std::atomic<bool> cancel = true;
  EXPECT_EQ(executor_->run(*phase_, {1, 0}, &cancel).code(),
            StatusCode::Cancelled);
  EXPECT_EQ(output_[0], 7.0f);
}

TEST_F(ExecutorTest, ArgumentsStayWhereTheyAre) {
  ArgumentStore store;
  std::vector<const void *> kept;
  for (int i = 0; i < 1000; ++i) {
    moek::RouterArgs args{};
    args.topK = i;
    kept.push_back(store.keep(args));
  }
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(static_cast<const moek::RouterArgs *>(kept[size_t(i)])->topK, i);
}

} // namespace
