//===- Bind.h - Binds proven instructions to CPU kernels --------*- C++ -*-===//
//
// Binding turns each instruction of a CPU into a kernel pointer and an argument
// struct (kernels/Abi.h). That the arguments are sound was proved before
// (runtime/prove/Prove.h). Binding only has to check that this CPU has the
// kernels and that the plan provides the scratch memory they need.
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
  /// Size and used bytes of the last chunk of memory.
  size_t chunkBytes_ = 0, used_ = 0;
};

struct BoundInstruction {
  moek::KernelFn kernel;
  const void *args;
  /// What happens before the instruction: workers wait at a barrier, wait for
  /// events, or signal the event of the previous instruction. 0 for most
  /// instructions.
  enum Sync : uint8_t { kBarrier = 1, kEvents = 2 };
  uint8_t sync = 0;
  /// Whether every worker does all of the work, as if it were the only one.
  bool replicated = false;
  /// Index in the phase's list, which has the instructions of all queues.
  uint32_t index = 0;
  /// One pointer per worker if their arguments differ; otherwise null.
  const void *const *ownArgs = nullptr;

  const void *argsOf(int32_t worker) const {
    return ownArgs ? ownArgs[worker] : args;
  }
};

/// The instructions of a phase that run on one device, ready to run.
struct BoundPhase {
  /// Events of an instruction that has kEvents.
  struct EventsAt {
    int32_t signal = -1; ///< Event of the previous instruction, or -1.
    uint32_t firstWait = 0, waits = 0; ///< Range in BoundPhase::waits.
  };

  std::vector<BoundInstruction> instructions;
  /// One entry per instruction; empty if there are no events.
  std::vector<EventsAt> events;
  std::vector<uint32_t> waits;
  int32_t lastSignal = -1; ///< Event of the last instruction, or -1.
  ArgumentStore arguments;
};

/// Memory that a CPU device can access.
struct CpuMemory {
  /// Arena of each device of the plan; null if the host cannot access it.
  std::span<std::byte *const> arenas;
  std::byte *kv = nullptr; ///< The device's own caches.
  /// Memory of each worker, for buffers of which each worker has a copy. The
  /// phase must run with exactly this number of workers.
  std::span<std::byte *const> workers = {};
};

/// Binds the instructions of `phase`, which is one of `plan`'s, that run on CPU
/// device number `device`. `plan` must have passed checkMachine(), and memories
/// must be at least as large as the plan says. Fails with WrongMachine for a
/// kernel that this machine cannot run or a copy to or from memory that it
/// cannot access, and with InvalidFile for too little scratch memory; errors
/// name phase and instruction.
StatusOr<BoundPhase> bindPhase(const Plan &plan, const ProvenPhase &phase,
                               uint32_t device, const CpuMemory &memory,
                               const WeightFiles &files);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_BIND_H
