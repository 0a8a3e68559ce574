//===- Executor.h - Walks an instruction list -------------------*- C++ -*-===//
//
// Every worker walks the same list and does its share of each instruction
// (SPMD). They meet only where the plan has marked a barrier, and at the end.
// Where the plan has several queues, they also wait for events of the others,
// and signal their own.
//
// Beside busy neighbours a step leaves workers out (TeamPolicy); which ones run
// changes no bit of the results.
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
#include <span>
#include <vector>

namespace moert {

/// What every worker has for itself.
struct WorkerMemory {
  uint64_t bufferBytes;  ///< For the plan's buffers per worker.
  uint64_t scratchBytes; ///< For kernels, within an instruction.
};

/// What teams are chosen by; tests make up their own.
struct TeamSensors {
  std::function<double()> now;    ///< Seconds of a steady clock.
  std::function<double()> queued; ///< See WorkerPool::secondsQueued().
};

class Executor {
public:
  /// `nodes`: see makeTeam(). Where there are several, all workers run every
  /// step: each node's memory holds what its own workers read. Without
  /// `sensors` the clock and `pool` are asked.
  static StatusOr<Executor> create(std::unique_ptr<WorkerPool> pool,
                                   WorkerMemory memory,
                                   std::span<const int> nodes = {},
                                   TeamSensors sensors = {});
  Executor(Executor &&) = default;
  Executor &operator=(Executor &&) = default;

  /// From now on all workers run every step: beside another executor a team's
  /// time tells nothing of its size.
  void fixTeam();

  /// Runs one step. `step` is within the phase's token range. Cancelled when
  /// `cancel` (may be null) was set before the last barrier: all workers then
  /// stop at the same instruction, and the phase's buffers are undefined.
  /// `times`, when not empty, has one entry per instruction, to which the time
  /// in it is added.
  Status run(const BoundPhase &phase, const moek::Step &step,
             const std::atomic<bool> *cancel = nullptr,
             std::span<InstructionTime> times = {}) {
    begin(phase, step, {nullptr, cancel, times});
    return end();
  }

  /// The two halves of run(): between them other executors may begin the same
  /// step. `phase`, `step` and what `control` points to live until end()
  /// returns.
  void begin(const BoundPhase &phase, const moek::Step &step,
             const StepControl &control);
  Status end();

  /// Workers that there are.
  int32_t threads() const { return pool_->team(); }
  /// Those that ran the last step.
  int32_t lastTeam() const { return lastTeam_; }

  /// By worker: where its buffers are.
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
    bool began = false; ///< Else cancelled before.
    uint32_t *tickets = nullptr, *nextTickets = nullptr;
    bool stop = false; ///< Written by the last to reach a barrier.
  };
  /// What one worker does of it.
  struct Share {
    Executor *self;
    void operator()(int32_t index) const { self->work(index); }
  };
  void work(int32_t index);
  bool synchronize(size_t &at);
  bool meet();

  std::unique_ptr<WorkerPool> pool_;
  HostMemory memory_;
  std::vector<std::byte *> buffers_; ///< In memory_, by worker.
  std::vector<moek::Worker> workers_;
  /// [2, team, ticketStride_]: a row has a counter per instruction. Steps take
  /// turns, so that each worker clears its own row for the next step.
  std::vector<uint32_t> tickets_;
  size_t ticketStride_ = 0;
  bool oddStep_ = false;

  TeamSensors sensors_;
  /// Steps of few tokens suffer from neighbours more than long ones, whose
  /// barriers are far apart, so that the two learn by themselves.
  std::vector<TeamPolicy> policies_; ///< [2]: of short steps, of long ones.
  size_t lastPolicy_ = 0;
  int32_t lastTeam_ = 0;
  std::unique_ptr<Job> job_;
  std::unique_ptr<Share> share_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_EXECUTOR_H
