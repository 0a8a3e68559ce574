//===- Executor.h - Walks an instruction list -------------------*- C++ -*-===//
//
// Every worker walks the same list and does its share of each instruction
// (SPMD). They meet only where the plan has marked a barrier, and at the end.
// Beside busy neighbours a step leaves workers out (TeamPolicy); which ones run
// changes no bit of the results.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_EXECUTOR_H
#define MOE_RUNTIME_EXECUTOR_H

#include "runtime/Bind.h"
#include "runtime/device/cpu/HostMemory.h"
#include "runtime/device/cpu/TeamPolicy.h"
#include "runtime/device/cpu/WorkerPool.h"

#include <atomic>
#include <functional>
#include <span>
#include <vector>

namespace moert {

/// Worker 0's seconds in one instruction.
struct InstructionTime {
  double wait = 0; ///< At the barrier before it.
  double run = 0;  ///< In its share of the work.
};

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

  /// Runs one step. `step` is within the phase's token range. Cancelled when
  /// `cancel` (may be null) was set before the last barrier: all workers then
  /// stop at the same instruction, and the phase's buffers are undefined.
  /// `times`, when not empty, has one entry per instruction, to which the time
  /// in it is added.
  Status run(const BoundPhase &phase, const moek::Step &step,
             const std::atomic<bool> *cancel = nullptr,
             std::span<InstructionTime> times = {});

  /// Workers that there are.
  int32_t threads() const { return pool_->team(); }
  /// Those that ran the last step.
  int32_t lastTeam() const { return lastTeam_; }

  /// By worker: where its buffers are.
  std::span<std::byte *const> workerBuffers() const { return buffers_; }

private:
  Executor() = default;
  TeamPolicy &policyFor(const moek::Step &step);
  void run(int32_t team, const BoundPhase &phase, const moek::Step &step,
           const std::atomic<bool> *cancel, std::span<InstructionTime> times,
           bool &stop);

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
};

} // namespace moert

#endif // MOE_RUNTIME_EXECUTOR_H
