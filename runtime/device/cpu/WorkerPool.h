//===- WorkerPool.h - A team that runs one function together ----*- C++ -*-===//
//
// SPMD: run() makes every worker call the same function and returns when all
// have. The calling thread is worker 0, so that a team of one starts no thread
// and a team of N occupies N cores.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_WORKERPOOL_H
#define MOE_RUNTIME_DEVICE_CPU_WORKERPOOL_H

#include "runtime/base/Status.h"
#include "runtime/device/cpu/Barrier.h"

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

  /// Calls body(worker) on every worker, 0 <= worker < team(). `body` must not
  /// throw and must not call run(). One run at a time.
  template <class F> void run(const F &body) {
    job_ = [](const void *context, int32_t worker) {
      (*static_cast<const F *>(context))(worker);
    };
    context_ = &body;
    runJob();
  }

  /// For use inside run(): all workers of the team meet.
  Barrier &barrier() { return barrier_; }

private:
  WorkerPool(int32_t team, int callersCpu)
      : team_(team), callersCpu_(callersCpu), barrier_(team) {}
  void runJob();
  void workerLoop(int32_t worker, int cpu);

  const int32_t team_;
  const int callersCpu_; ///< -1: not pinned.
  Barrier barrier_;
  /// Set by run() before `start_` advances; null asks the threads to end.
  void (*job_)(const void *, int32_t) = nullptr;
  const void *context_ = nullptr;
  Event start_;
  std::vector<std::thread> threads_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_WORKERPOOL_H
