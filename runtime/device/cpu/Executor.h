//===- Executor.h - Runs an instruction list on a CPU -----------*- C++ -*-===//
//
// Every worker walks the same list and does its share of each instruction
// (SPMD). Workers synchronise only at the barriers of the plan and at the end.
// If the plan has several queues, they also wait for events of other queues and
// signal their own.
//
// A step may leave out some workers (TeamPolicy). The choice of workers changes
// no bit of the results.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_EXECUTOR_H
#define MOE_RUNTIME_DEVICE_CPU_EXECUTOR_H

#include "runtime/device/Device.h"
#include "runtime/device/HostMemory.h"
#include "runtime/device/cpu/Bind.h"
#include "runtime/device/cpu/TeamPolicy.h"
#include "runtime/device/cpu/WorkerPool.h"

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// Bytes of memory that each worker has for itself.
struct WorkerMemory {
  uint64_t bufferBytes;  ///< For buffers of which each worker has a copy.
  uint64_t scratchBytes; ///< For kernels, within an instruction.
};

/// Measurements that the number of workers is chosen by; tests supply their
/// own.
struct TeamSensors {
  std::function<double()> now; ///< Seconds on a steady clock.
  std::function<CpuLoad()> load;
};

/// How the workers of an executor share the steps.
struct TeamOptions {
  /// See makeWorkers(). With several nodes, all workers run every step, because
  /// each node's memory holds the weights that its own workers read.
  std::vector<int> nodes = {};
  /// Numbers of workers to try, at most all of the pool; absent: from one to
  /// all.
  std::optional<TeamRange> range = {};
  /// The default is the clock, the pool and the system.
  TeamSensors sensors = {};
};

class Executor {
public:
  static StatusOr<Executor> create(std::unique_ptr<WorkerPool> pool,
                                   WorkerMemory memory,
                                   TeamOptions options = {});
  Executor(Executor &&) = default;
  Executor &operator=(Executor &&) = default;

  /// Runs one step. `step` must be within the phase's token range. Returns
  /// Cancelled if `cancel` (may be null) was set before the last barrier: all
  /// workers then stop at the same instruction, and the phase's buffers are
  /// undefined. `times`, if not empty, has one entry per instruction, to which
  /// the time spent in it is added.
  Status run(const BoundPhase &phase, const moek::Step &step,
             const std::atomic<bool> *cancel = nullptr,
             std::span<InstructionTime> times = {}) {
    begin(phase, step, {nullptr, cancel, times});
    return end();
  }

  /// The two halves of run(). Between them, other executors may begin the same
  /// step. `phase`, `step` and what `control` points to must live until end()
  /// returns.
  void begin(const BoundPhase &phase, const moek::Step &step,
             const StepControl &control);
  Status end();

  /// Number of workers.
  int32_t threads() const { return pool_->team(); }
  /// Number of workers that ran the last step, or would run the first.
  int32_t lastTeam() const { return lastTeam_; }

  /// Each worker's memory for buffers.
  std::span<std::byte *const> workerBuffers() const { return buffers_; }

private:
  Executor() = default;
  TeamPolicy &policyFor(const moek::Step &step);
  /// The running step.
  struct Job {
    const BoundPhase *phase = nullptr;
    const moek::Step *step = nullptr;
    StepControl control;
    double beginSeconds = 0;
    bool began = false; ///< False if the step was cancelled before it began.
    uint32_t *tickets = nullptr, *nextTickets = nullptr;
    bool stop = false; ///< The last worker that reaches a barrier writes it.
  };
  /// Runs one worker's share of the step.
  struct Share {
    Executor *self;
    void operator()(int32_t index) const { self->work(index); }
  };
  void work(int32_t index);
  bool synchronize(size_t &at);
  bool waitAtBarrier();

  std::unique_ptr<WorkerPool> pool_;
  HostMemory memory_;
  std::vector<std::byte *> buffers_; ///< Pointers into memory_, one per worker.
  std::vector<moek::Worker> workers_;
  /// [2, team, ticketStride_]: each row has a counter per instruction. Steps
  /// use the two halves alternately, and each worker clears its own row for the
  /// next step.
  std::vector<uint32_t> tickets_;
  size_t ticketStride_ = 0;
  bool oddStep_ = false;

  TeamSensors sensors_;
  /// Busy neighbours slow short steps down more than long ones, whose barriers
  /// are far apart, so each kind has a policy of its own.
  std::vector<TeamPolicy> policies_; ///< [2]: for short steps, for long steps.
  size_t lastPolicy_ = 0;
  int32_t lastTeam_ = 0;
  std::unique_ptr<Job> job_;
  std::unique_ptr<Share> share_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_EXECUTOR_H
