#include "runtime/Executor.h"

#include "runtime/Team.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace moert {

namespace {
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
                                    uint64_t scratchBytes,
                                    std::span<const int> nodes) {
  Executor executor;
  // Whole pages per worker: no two share a cache line, and first touch puts a
  // worker's scratch on its own memory node.
  Checked stride = Checked(scratchBytes).alignedTo(4096);
  Checked total = stride * Checked(uint64_t(pool->team()));
  if (!total.valid())
    return Status(StatusCode::DoesNotFit,
                  fmt::format("{} bytes of scratch memory per worker cannot be "
                              "had",
                              scratchBytes));
  MOE_ASSIGN_OR_RETURN(executor.scratch_,
                       HostMemory::allocate(total.value(), "scratch"));
  executor.workers_ = makeTeam(pool->team(), nodes);
  for (moek::Worker &worker : executor.workers_)
    worker.scratch = executor.scratch_.data() + worker.index * stride.value();
  executor.pool_ = std::move(pool);
  return executor;
}

Status Executor::run(const BoundPhase &phase, const moek::Step &step,
                     const std::atomic<bool> *cancel,
                     std::span<InstructionTime> times) {
  // Written by the last worker to reach a barrier, read by all after it.
  bool stop = false;
  auto atMeeting = [&] {
    stop = cancel && cancel->load(std::memory_order_relaxed);
  };
  if (cancel && cancel->load(std::memory_order_relaxed))
    return Status(StatusCode::Cancelled, "interrupted");
  size_t team = size_t(pool_->team());
  if (phase.instructions.size() > ticketStride_) {
    // Whole cache lines: a worker mostly takes its own tickets.
    ticketStride_ = (phase.instructions.size() + 15) / 16 * 16;
    tickets_.assign(2 * team * ticketStride_, 0);
  }
  uint32_t *tickets = tickets_.data() + oddStep_ * team * ticketStride_;
  uint32_t *nextTickets = tickets_.data() + !oddStep_ * team * ticketStride_;
  oddStep_ = !oddStep_;
  pool_->run([&](int32_t index) {
    moek::Worker worker = workers_[size_t(index)];
    worker.ticketStride = int64_t(ticketStride_);
    std::fill_n(nextTickets + size_t(index) * ticketStride_, ticketStride_, 0u);
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
      instruction.kernel(instruction.args, step, worker);
      if (timed)
        addSecondsSince(before, times[i].run);
    }
  });
  if (stop)
    return Status(StatusCode::Cancelled, "interrupted");
  return Status::ok();
}

} // namespace moert
