//===- Bind.h - From proven to runnable instructions ------------*- C++ -*-===//
//
// Binding turns each instruction of a CPU into a kernel pointer and its
// argument struct (kernels/Abi.h). That these are sound was proved before
// (runtime/prove/Prove.h); what is left to find out is whether this CPU has the
// kernels, and whether the plan gives them the scratch that they need.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_BIND_H
#define MOE_RUNTIME_DEVICE_CPU_BIND_H

#include "kernels/Registry.h"
#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/prove/ProvenOp.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace moert {

/// Keeps argument structs at stable addresses, in execution order.
class ArgumentStore {
public:
  template <class Args> const void *keep(const Args &args) {
    static_assert(std::is_trivially_copyable_v<Args>);
    void *place = allocate(sizeof(Args));
    std::memcpy(place, &args, sizeof(Args));
    return place;
  }

  template <class T> T *makeArray(size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return new (allocate(count * sizeof(T))) T[count]{};
  }

private:
  void *allocate(size_t bytes);

  static constexpr size_t kChunkBytes = 16 << 10;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  size_t chunkBytes_ = 0, used_ = 0; ///< Of the last chunk.
};

struct BoundInstruction {
  moek::KernelFn kernel;
  const void *args;
  /// What is done before it: workers meet at a barrier, wait for events, signal
  /// that of the instruction before. 0 for most instructions.
  enum Sync : uint8_t { kBarrier = 1, kEvents = 2 };
  uint8_t sync = 0;
  /// Every worker does all of it, as a team of one.
  bool replicated = false;
  uint32_t index = 0; ///< In the phase's list of all queues.
  /// By worker, where their arguments differ; else null.
  const void *const *ownArgs = nullptr;

  const void *argsOf(int32_t worker) const {
    return ownArgs ? ownArgs[worker] : args;
  }
};

/// One device's part of a phase's instruction list, ready to run.
struct BoundPhase {
  /// Events at an instruction that has kEvents.
  struct EventsAt {
    int32_t signal = -1;               ///< Of the instruction before it, or -1.
    uint32_t firstWait = 0, waits = 0; ///< In BoundPhase::waits.
  };

  std::vector<BoundInstruction> instructions;
  std::vector<EventsAt> events; ///< By instruction; empty if none has any.
  std::vector<uint32_t> waits;
  int32_t lastSignal = -1; ///< Of the last instruction.
  ArgumentStore arguments;
};

/// What a CPU device reaches.
struct CpuMemory {
  /// Of each device of the plan, null for one that keeps it to itself.
  std::span<std::byte *const> arenas;
  std::byte *kv = nullptr; ///< Its own.
  /// Of each worker, for the buffers of which each has a copy. Binding to more
  /// or fewer workers than will run the phase is an error of the caller.
  std::span<std::byte *const> workers = {};
};

/// What CPU device number `device` does of `phase`, which is one of `plan`'s;
/// `plan` passed checkMachine(). Memories are at least as large as the plan
/// says. Fails with WrongMachine for a kernel that this machine cannot run or a
/// copy of what it does not reach, with InvalidFile for too little scratch,
/// naming phase and instruction.
StatusOr<BoundPhase> bindPhase(const Plan &plan, const ProvenPhase &phase,
                               uint32_t device, const CpuMemory &memory,
                               const WeightFiles &files);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_BIND_H
