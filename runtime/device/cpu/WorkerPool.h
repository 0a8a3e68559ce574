//===- WorkerPool.h - A thread pool for SPMD execution ----------*- C++ -*-===//
//
// run() makes every worker call the same function and returns when all have
// finished. The calling thread is worker 0, so a pool of one starts no thread
// and a pool of N occupies N cores. A run may leave out the last workers, which
// then sleep undisturbed.
//
// If several pools work at the same time, the caller can be a worker of only
// one of them: each of the others has a thread for each worker.
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

/// The thread that is worker 0.
enum class FirstWorker { Caller, Thread };

class WorkerPool {
public:
  /// `team` is at least 1. Worker i is kept on the CPUs cpus[i]; where these
  /// are none, or the span is too short, on any. Worker 0, if it is the
  /// caller's thread, is kept there only while it works and gets its affinity
  /// mask back between runs. Fails with DoesNotFit if the system refuses
  /// another thread.
  static StatusOr<std::unique_ptr<WorkerPool>>
  create(int32_t team, std::span<const std::vector<int>> cpus = {},
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

  /// The two halves of run(), between which the caller can do other work.
  /// Workers with threads of their own begin at once; worker 0, if it is the
  /// caller, works in finish(). `body` must live until finish() returns.
  template <class F> void start(int32_t team, const F &body) {
    job_ = [](const void *context, int32_t worker) {
      (*static_cast<const F *>(context))(worker);
    };
    context_ = &body;
    startJob(team);
  }
  void finish();

  /// For use inside run(): a barrier for all workers that take part.
  Barrier &barrier() { return barrier_; }

  /// Returns the sum over all workers of the seconds that they could have run
  /// but had no CPU, since they began; 0 if the system does not report it. Must
  /// be called by the thread that calls run(). Takes a few microseconds per
  /// worker.
  double secondsQueued();

private:
  /// State of a worker, on cache lines of its own, so that a run does not
  /// disturb the workers that it leaves out.
  struct alignas(64) Member {
    Event start;
    QueueTime queued;
  };

  WorkerPool(int32_t team, FirstWorker first, std::vector<int> callersCpus)
      : team_(team), first_(first), callersCpus_(std::move(callersCpus)),
        barrier_(team), members_(new Member[size_t(team)]) {}
  /// Index of the first worker with a thread of its own.
  int32_t firstThread() const { return first_ == FirstWorker::Caller ? 1 : 0; }
  void startJob(int32_t team);
  void workerLoop(int32_t worker, const std::vector<int> &cpus);

  const int32_t team_;
  const FirstWorker first_;
  const std::vector<int> callersCpus_;
  Barrier barrier_;
  /// Set by run() before a worker starts; null makes the threads exit.
  void (*job_)(const void *, int32_t) = nullptr;
  const void *context_ = nullptr;
  std::unique_ptr<Member[]> members_; ///< [team]
  /// Threads of the workers from firstThread() on.
  std::vector<std::thread> threads_;
  Event ended_; ///< Used if worker 0 is a thread; advances when a run ends.
  uint32_t runs_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_WORKERPOOL_H
