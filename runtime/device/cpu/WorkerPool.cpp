#include "runtime/device/cpu/WorkerPool.h"

#include "runtime/device/cpu/Pinning.h"

#include <fmt/format.h>
#include <system_error>

namespace moert {

StatusOr<std::unique_ptr<WorkerPool>>
WorkerPool::create(int32_t team, std::span<const std::vector<int>> cpus,
                   FirstWorker first) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool(
      team, first, cpus.empty() ? std::vector<int>() : cpus.front()));
  pool->threads_.reserve(size_t(team));
  for (int32_t worker = pool->firstThread(); worker < team; ++worker) {
    std::vector<int> own =
        size_t(worker) < cpus.size() ? cpus[worker] : std::vector<int>();
    try {
      pool->threads_.emplace_back(&WorkerPool::workerLoop, pool.get(), worker,
                                  std::move(own));
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
    members_[i + size_t(firstThread())].start.advance();
  for (std::thread &thread : threads_)
    thread.join();
}

void WorkerPool::startJob(int32_t team) {
  barrier_.setTeam(team);
  for (int32_t worker = firstThread(); worker < team; ++worker)
    members_[size_t(worker)].start.advance();
}

void WorkerPool::finish() {
  if (first_ == FirstWorker::Thread) {
    ended_.waitWhile(runs_++);
    return;
  }
  PinnedHere pinned(callersCpus_);
  job_(context_, 0);
  barrier_.arriveAndWait();
}

void WorkerPool::workerLoop(int32_t worker, const std::vector<int> &cpus) {
  PinnedHere pinned(cpus);
  Member &self = members_[size_t(worker)];
  self.queued.followThisThread();
  // The start counter is 0 until this worker's first run, and that run waits
  // for this thread at its end. No run can be missed, however late the thread
  // begins.
  for (uint32_t seen = 0;; ++seen) {
    self.start.waitWhile(seen);
    if (!job_)
      return;
    job_(context_, worker);
    if (first_ == FirstWorker::Caller)
      barrier_.arriveAndWait();
    else
      barrier_.arriveAndWait([this] { ended_.advance(); });
  }
}

double WorkerPool::secondsQueued() {
  if (first_ == FirstWorker::Caller)
    members_[0].queued.followThisThread();
  double sum = 0;
  for (int32_t worker = 0; worker < team_; ++worker)
    sum += members_[size_t(worker)].queued.seconds();
  return sum;
}

} // namespace moert
