//===- WorkerPool.h - A team that runs one function together ----*- C++ -*-===//
//
// SPMD: run() makes every worker call the same function and returns when all
// have. The calling thread is worker 0, so that a team of one starts no thread
// and a team of N occupies N cores. A run may leave out the last workers, who
// then sleep undisturbed.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_WORKERPOOL_H
#define MOE_RUNTIME_DEVICE_CPU_WORKERPOOL_H

#include "runtime/base/Status.h"
#include "runtime/device/cpu/Barrier.h"
#include "runtime/device/cpu/QueueTime.h"

#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace moert {

class WorkerPool {
public:
  /// `team` is at least 1. Worker i is pinned to cpus[i] where there is one; an
  /// empty span pins none. Worker 0, the caller's thread, is only pinned while
  /// it runs, and has its own affinity mask again between runs. Fails with
  /// DoesNotFit when the system refuses another thread.
  static StatusOr<std::unique_ptr<WorkerPool>>
  create(int32_t team, std::span<const int> cpus = {});
  ~WorkerPool();

  int32_t team() const { return team_; }

  /// Calls body(worker) on workers 0 ... team - 1, where 1 <= team <= team().
  /// `body` must not throw and must not call run(). One run at a time.
  template <class F> void run(int32_t team, const F &body) {
    job_ = [](const void *context, int32_t worker) {
      (*static_cast<const F *>(context))(worker);
    };
    context_ = &body;
    runJob(team);
  }
  template <class F> void run(const F &body) { run(team_, body); }

  /// For use inside run(): all workers that run meet.
  Barrier &barrier() { return barrier_; }

  /// The sum over all workers of the seconds that they could have run but had
  /// no CPU, since they began. To be called by the thread that calls run(); 0
  /// where the system does not tell. Some microseconds a worker.
  double secondsQueued();

private:
  /// What a worker has for itself, on cache lines of its own: those that a run
  /// leaves out see nothing of it.
  struct alignas(64) Member {
    Event start;
    QueueTime queued;
  };

  WorkerPool(int32_t team, int callersCpu)
      : team_(team), callersCpu_(callersCpu), barrier_(team),
        members_(new Member[size_t(team)]) {}
  void runJob(int32_t team);
  void workerLoop(int32_t worker, int cpu);

  const int32_t team_;
  const int callersCpu_; ///< -1: not pinned.
  Barrier barrier_;
  /// Set by run() before a worker's start; null asks the threads to end.
  void (*job_)(const void *, int32_t) = nullptr;
  const void *context_ = nullptr;
  std::unique_ptr<Member[]> members_; ///< [team]
  std::vector<std::thread> threads_;  ///< [team - 1], of worker 1 and so on.
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_WORKERPOOL_H
