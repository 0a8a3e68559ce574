#include "runtime/Executor.h"

#include "runtime/Team.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace moert {

namespace {
constexpr uint64_t kPageBytes = 4096;
/// A step of more is long: a prompt, not what is generated.
constexpr int32_t kShortStepTokens = 8;

double secondsNow() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Adds the time since `before` to `sum` and moves `before` to now.
void addSecondsSince(double &before, double &sum) {
  double now = secondsNow();
  sum += now - before;
  before = now;
}
} // namespace

StatusOr<Executor> Executor::create(std::unique_ptr<WorkerPool> pool,
                                    WorkerMemory memory,
                                    std::span<const int> nodes,
                                    TeamSensors sensors) {
  Executor executor;
  // Whole pages per worker: no two share a cache line, and first touch puts a
  // worker's memory on its own node.
  Checked buffers = Checked(memory.bufferBytes).alignedTo(kPageBytes);
  Checked stride = buffers + Checked(memory.scratchBytes).alignedTo(kPageBytes);
  Checked total = stride * Checked(uint64_t(pool->team()));
  if (!total.valid())
    return Status(StatusCode::DoesNotFit,
                  fmt::format("{} bytes of buffers and {} of scratch memory "
                              "per worker cannot be had",
                              memory.bufferBytes, memory.scratchBytes));
  MOE_ASSIGN_OR_RETURN(
      executor.memory_,
      HostMemory::allocate(total.value(), "the workers' memory"));
  executor.workers_ = makeTeam(pool->team(), nodes);
  for (moek::Worker &worker : executor.workers_) {
    std::byte *own = executor.memory_.data() + worker.index * stride.value();
    executor.buffers_.push_back(own);
    worker.scratch = own + buffers.value();
  }
  bool oneNode = nodes.empty() || nodes.front() == nodes.back();
  executor.policies_.assign(
      2, TeamPolicy(pool->team(), oneNode ? 1 : pool->team()));
  executor.sensors_ = std::move(sensors);
  if (!executor.sensors_.now)
    executor.sensors_.now = secondsNow;
  if (!executor.sensors_.queued)
    executor.sensors_.queued = [pool = pool.get()] {
      return pool->secondsQueued();
    };
  executor.pool_ = std::move(pool);
  return executor;
}

TeamPolicy &Executor::policyFor(const moek::Step &step) {
  size_t which = step.tokens > kShortStepTokens;
  if (which != lastPolicy_)
    policies_[lastPolicy_].pause();
  lastPolicy_ = which;
  return policies_[which];
}

Status Executor::run(const BoundPhase &phase, const moek::Step &step,
                     const std::atomic<bool> *cancel,
                     std::span<InstructionTime> times) {
  if (cancel && cancel->load(std::memory_order_relaxed))
    return Status(StatusCode::Cancelled, "interrupted");
  TeamPolicy &policy = policyFor(step);
  lastTeam_ = policy.team();
  bool stopped = false;
  double begin = sensors_.now();
  run(lastTeam_, phase, step, cancel, times, stopped);
  if (stopped)
    return Status(StatusCode::Cancelled, "interrupted");
  StepKind kind{phase.instructions.data(), step.tokens};
  if (policy.ran(kind, begin, sensors_.now()))
    policy.decide(sensors_.queued());
  return Status::ok();
}

void Executor::run(int32_t team, const BoundPhase &phase,
                   const moek::Step &step, const std::atomic<bool> *cancel,
                   std::span<InstructionTime> times, bool &stop) {
  // Written by the last worker to reach a barrier, read by all after it.
  auto atMeeting = [&] {
    stop = cancel && cancel->load(std::memory_order_relaxed);
  };
  size_t rows = workers_.size();
  if (phase.instructions.size() > ticketStride_) {
    // Whole cache lines: a worker mostly takes its own tickets.
    ticketStride_ = (phase.instructions.size() + 15) / 16 * 16;
    tickets_.assign(2 * rows * ticketStride_, 0);
  }
  uint32_t *tickets = tickets_.data() + oddStep_ * rows * ticketStride_;
  uint32_t *nextTickets = tickets_.data() + !oddStep_ * rows * ticketStride_;
  oddStep_ = !oddStep_;
  pool_->run(team, [&](int32_t index) {
    moek::Worker worker = workers_[size_t(index)];
    worker.count = team;
    worker.nodeEnd = std::min(worker.nodeEnd, team);
    worker.ticketStride = int64_t(ticketStride_);
    const moek::Worker alone{0, 1, worker.scratch};
    // Its own row, and those of workers that are left out now.
    for (size_t row = size_t(index); row < rows; row += size_t(team))
      std::fill_n(nextTickets + row * ticketStride_, ticketStride_, 0u);
    bool timed = index == 0 && !times.empty();
    double before = timed ? secondsNow() : 0;
    for (size_t i = 0; i < phase.instructions.size(); ++i) {
      const BoundInstruction &instruction = phase.instructions[i];
      if (instruction.barrier) {
        pool_->barrier().arriveAndWait(atMeeting);
        if (stop)
          return;
        if (timed)
          addSecondsSince(before, times[i].wait);
      }
      worker.tickets = tickets + i;
      instruction.kernel(instruction.argsOf(index), step,
                         instruction.replicated ? alone : worker);
      if (timed)
        addSecondsSince(before, times[i].run);
    }
  });
}

} // namespace moert
