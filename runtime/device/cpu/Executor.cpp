#include "runtime/device/cpu/Executor.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/device/cpu/Team.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace moert {

namespace {
constexpr uint64_t kPageBytes = 4096;
/// Steps with more tokens count as long: they process a prompt.
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
                                    WorkerMemory memory, TeamOptions options) {
  Executor executor;
  // Each worker has whole pages: no two workers share a cache line, and first
  // touch places a worker's memory on its own node.
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
  executor.workers_ = makeWorkers(pool->team(), options.nodes);
  for (moek::Worker &worker : executor.workers_) {
    std::byte *own = executor.memory_.data() + worker.index * stride.value();
    executor.buffers_.push_back(own);
    worker.scratch = own + buffers.value();
  }
  TeamRange range =
      options.range.value_or(TeamRange{1, pool->team(), pool->team()});
  if (!options.nodes.empty() && options.nodes.front() != options.nodes.back())
    range = TeamRange::fixed(pool->team());
  executor.lastTeam_ = range.first;
  executor.policies_.assign(2, TeamPolicy(std::move(range)));
  executor.sensors_ = std::move(options.sensors);
  if (!executor.sensors_.now)
    executor.sensors_.now = secondsNow;
  if (!executor.sensors_.load)
    executor.sensors_.load = [pool = pool.get(),
                              free = std::make_shared<FreeCpus>()] {
      return CpuLoad{pool->secondsQueued(), free->count()};
    };
  executor.pool_ = std::move(pool);
  executor.job_ = std::make_unique<Job>();
  executor.share_ = std::make_unique<Share>();
  return executor;
}

TeamPolicy &Executor::policyFor(const moek::Step &step) {
  size_t which = step.tokens > kShortStepTokens;
  if (which != lastPolicy_)
    policies_[lastPolicy_].pause();
  lastPolicy_ = which;
  return policies_[which];
}

void Executor::begin(const BoundPhase &phase, const moek::Step &step,
                     const StepControl &control) {
  lastTeam_ = policyFor(step).team();
  size_t rows = workers_.size();
  if (phase.instructions.size() > ticketStride_) {
    // Rows are whole cache lines, because a worker mostly takes its own
    // tickets.
    ticketStride_ = (phase.instructions.size() + 15) / 16 * 16;
    tickets_.assign(2 * rows * ticketStride_, 0);
  }
  *job_ = {&phase, &step, control};
  job_->tickets = tickets_.data() + oddStep_ * rows * ticketStride_;
  job_->nextTickets = tickets_.data() + !oddStep_ * rows * ticketStride_;
  // If the step was cancelled before it began, nothing is touched.
  job_->stop =
      control.cancel && control.cancel->load(std::memory_order_relaxed);
  if (job_->stop) {
    if (control.events)
      control.events->stop();
    return;
  }
  oddStep_ = !oddStep_;
  job_->began = true;
  job_->beginSeconds = sensors_.now();
  share_->self = this; // The executor may have been moved since the last step.
  pool_->start(lastTeam_, *share_);
}

Status Executor::end() {
  if (!job_->began)
    return Status(StatusCode::Cancelled, "interrupted");
  pool_->finish();
  if (job_->stop)
    return Status(StatusCode::Cancelled, "interrupted");
  TeamPolicy &policy = policies_[lastPolicy_];
  StepKind kind{job_->phase->instructions.data(), job_->step->tokens};
  if (policy.ran(kind, job_->beginSeconds, sensors_.now()))
    policy.decide(sensors_.load());
  return Status::ok();
}

void Executor::work(int32_t index) {
  const Job &job = *job_;
  const BoundPhase &phase = *job.phase;
  moek::Worker worker = workers_[size_t(index)];
  worker.count = lastTeam_;
  worker.nodeEnd = std::min(worker.nodeEnd, lastTeam_);
  worker.ticketStride = int64_t(ticketStride_);
  const moek::Worker alone{0, 1, worker.scratch};
  // Clear the worker's own row, and those of workers that this step leaves out.
  for (size_t row = size_t(index); row < workers_.size();
       row += size_t(lastTeam_))
    std::fill_n(job.nextTickets + row * ticketStride_, ticketStride_, 0u);
  std::span<InstructionTime> times = job.control.times;
  bool timed = index == 0 && !times.empty();
  double before = timed ? secondsNow() : 0;
  uint32_t *tickets = job.tickets;
  for (size_t i = 0; i < phase.instructions.size(); ++i) {
    if (phase.instructions[i].sync) {
      if (!synchronize(i))
        return;
      if (timed)
        addSecondsSince(before, times[phase.instructions[i].index].wait);
    }
    const BoundInstruction &instruction = phase.instructions[i];
    worker.tickets = tickets + i;
    instruction.kernel(instruction.argsOf(index), *job.step,
                       instruction.replicated ? alone : worker);
    if (timed)
      addSecondsSince(before, times[instruction.index].run);
  }
  if (phase.lastSignal >= 0)
    job.control.events->arrive(uint32_t(phase.lastSignal), lastTeam_);
}

/// Synchronises as instruction `at` requires; returns false if the step ends
/// there.
bool Executor::synchronize(size_t &at) {
  const BoundPhase &phase = *job_->phase;
  if (phase.instructions[at].sync & BoundInstruction::kEvents) {
    const BoundPhase::EventsAt &here = phase.events[at];
    StepEvents &events = *job_->control.events;
    if (here.signal >= 0)
      events.arrive(uint32_t(here.signal), lastTeam_);
    for (uint32_t i = 0; i < here.waits; ++i)
      events.wait(phase.waits[here.firstWait + i]);
    if (here.waits > 0 && events.stopped()) {
      // The data that it waited for may be missing. Other workers of the pool
      // may already be past this wait, so all leave together at the next
      // barrier.
      while (!(phase.instructions[at].sync & BoundInstruction::kBarrier))
        if (++at == phase.instructions.size())
          return false;
      return waitAtBarrier();
    }
  }
  return !(phase.instructions[at].sync & BoundInstruction::kBarrier) ||
         waitAtBarrier();
}

/// Waits at the barrier; returns false if the step is abandoned.
bool Executor::waitAtBarrier() {
  Job &job = *job_;
  pool_->barrier().arriveAndWait([&] {
    const StepControl &control = job.control;
    job.stop =
        (control.cancel && control.cancel->load(std::memory_order_relaxed)) ||
        (control.events && control.events->stopped());
    if (job.stop && control.events)
      control.events->stop();
  });
  return !job.stop;
}

} // namespace moert
