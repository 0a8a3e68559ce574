#include "runtime/device/cpu/WorkerPool.h"

#include "runtime/device/cpu/Pinning.h"

#include <fmt/format.h>
#include <system_error>

namespace moert {

StatusOr<std::unique_ptr<WorkerPool>>
WorkerPool::create(int32_t team, std::span<const int> cpus) {
  std::unique_ptr<WorkerPool> pool(
      new WorkerPool(team, cpus.empty() ? -1 : cpus.front()));
  pool->threads_.reserve(team - 1);
  for (int32_t worker = 1; worker < team; ++worker) {
    int cpu = size_t(worker) < cpus.size() ? cpus[worker] : -1;
    try {
      pool->threads_.emplace_back(&WorkerPool::workerLoop, pool.get(), worker,
                                  cpu);
    } catch (const std::system_error &error) {
      return Status(StatusCode::DoesNotFit,
                    fmt::format("the system refuses worker thread {} of {}: "
                                "{}; use fewer threads",
                                worker, team, error.what()));
    }
  }
  return pool;
}

WorkerPool::~WorkerPool() {
  job_ = nullptr;
  for (size_t i = 0; i < threads_.size(); ++i)
    members_[i + 1].start.advance();
  for (std::thread &thread : threads_)
    thread.join();
}

void WorkerPool::runJob(int32_t team) {
  PinnedHere pinned(callersCpu_);
  barrier_.setTeam(team);
  for (int32_t worker = 1; worker < team; ++worker)
    members_[size_t(worker)].start.advance();
  job_(context_, 0);
  barrier_.arriveAndWait();
}

void WorkerPool::workerLoop(int32_t worker, int cpu) {
  PinnedHere pinned(cpu);
  Member &self = members_[size_t(worker)];
  self.queued.followThisThread();
  // The start is 0 until this worker's first run, which waits for this thread
  // at its end: no run can be missed, however late the thread begins.
  for (uint32_t seen = 0;; ++seen) {
    self.start.waitWhile(seen);
    if (!job_)
      return;
    job_(context_, worker);
    barrier_.arriveAndWait();
  }
}

double WorkerPool::secondsQueued() {
  members_[0].queued.followThisThread();
  double sum = 0;
  for (int32_t worker = 0; worker < team_; ++worker)
    sum += members_[size_t(worker)].queued.seconds();
  return sum;
}

} // namespace moert
