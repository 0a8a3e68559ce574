//===- WorkerPool.h - A team that runs one function together ----*- C++ -*-===//
//
// SPMD: run() makes every worker call the same function and returns when all
// have. The calling thread is worker 0, so that a team of one starts no thread
// and a team of N occupies N cores. A run may leave out the last workers, who
// then sleep undisturbed.
//
// Of several pools that work at the same time, the caller can be a worker of
// one only: the others have a thread for each of theirs.
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

/// Who worker 0 is.
enum class FirstWorker { Caller, Thread };

class WorkerPool {
public:
  /// `team` is at least 1. Worker i is pinned to cpus[i] where there is one; an
  /// empty span pins none. Worker 0, the caller's thread, is only pinned while
  /// it runs, and has its own affinity mask again between runs. Fails with
  /// DoesNotFit when the system refuses another thread.
  static StatusOr<std::unique_ptr<WorkerPool>>
  create(int32_t team, std::span<const int> cpus = {},
         FirstWorker first = FirstWorker::Caller);
  ~WorkerPool();

  int32_t team() const { return team_; }

  /// Calls body(worker) on workers 0 ... team - 1, where 1 <= team <= team().
  /// `body` must not throw and must not call run(). One run at a time.
  template <class F> void run(int32_t team, const F &body) {
    start(team, body);
    finish();
  }
  template <class F> void run(const F &body) { run(team_, body); }

  /// The two halves of run(), to do something between them: the workers that
  /// are threads begin at once, worker 0 in finish() where it is the caller.
  /// `body` lives until finish() returns.
  template <class F> void start(int32_t team, const F &body) {
    job_ = [](const void *context, int32_t worker) {
      (*static_cast<const F *>(context))(worker);
    };
    context_ = &body;
    startJob(team);
  }
  void finish();

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

  WorkerPool(int32_t team, FirstWorker first, int callersCpu)
      : team_(team), first_(first), callersCpu_(callersCpu), barrier_(team),
        members_(new Member[size_t(team)]) {}
  /// The first worker that is a thread.
  int32_t firstThread() const { return first_ == FirstWorker::Caller ? 1 : 0; }
  void startJob(int32_t team);
  void workerLoop(int32_t worker, int cpu);

  const int32_t team_;
  const FirstWorker first_;
  const int callersCpu_; ///< -1: not pinned.
  Barrier barrier_;
  /// Set by run() before a worker's start; null asks the threads to end.
  void (*job_)(const void *, int32_t) = nullptr;
  const void *context_ = nullptr;
  std::unique_ptr<Member[]> members_; ///< [team]
  std::vector<std::thread> threads_;  ///< From firstThread() on.
  Event ended_; ///< Where worker 0 is a thread: advances as a run ends.
  uint32_t runs_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_WORKERPOOL_H
