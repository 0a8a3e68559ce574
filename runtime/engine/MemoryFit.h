//===- MemoryFit.h - Whether a plan fits this machine's memory --*- C++ -*-===//
//
// The estimate counts the bytes of the files that hold weights, the KV cache of
// all sequences, activations and the scratch memory of each worker, and of GPUs
// that share the host's memory the same with their workspace. The sum is
// compared with the most that this process may use: the machine's memory or the
// limit of its control group. A plan whose mapped weights exceed the limit can
// still run, but their pages are read from the disk again and again. This is so
// slow that the user has to allow it.
//
// Weights in private memory, which are copied or laid out while they load, push
// nothing else out: what they and the rest need has to be free at the moment.
// Memory that other programs use is not subtracted for mapped weights.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_MEMORYFIT_H
#define MOE_RUNTIME_ENGINE_MEMORYFIT_H

#include "runtime/base/HostCpu.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <string>

namespace moert {

/// Memory that a plan needs, in bytes.
struct MemoryNeed {
  uint64_t weights = 0; ///< Bytes of weights; mapped files are counted once.
  uint64_t kv = 0, activations = 0;
  /// Scratch memory of workers and of GPUs that share the memory.
  uint64_t workers = 0;
  int threads = 1; ///< Number of workers.
  /// Part of `weights` that is laid out in private memory while it loads.
  uint64_t loaded = 0;
  /// Part of `weights` that is pinned for a GPU that shares this memory.
  uint64_t pinned = 0;
  /// Whether all weights are private copies, which cannot be paged.
  bool copied = false;

  /// Bytes of weights in private memory.
  uint64_t privateWeights() const { return copied ? weights : loaded + pinned; }
  /// Bytes that cannot be paged to a file.
  uint64_t resident() const { return withoutWeights() + privateWeights(); }
  uint64_t withoutWeights() const { return kv + activations + workers; }
  uint64_t total() const { return weights + kv + activations + workers; }
};

struct MemoryFit {
  MemoryNeed need;
  MemoryLimit limit;
  uint64_t free = 0; ///< Bytes of the limit that are not in use; 0: unknown.

  bool fits() const {
    return (limit.bytes == 0 || need.total() <= limit.bytes) && !lacksFree();
  }
  /// Returns whether it runs if mapped weights are paged from their files.
  bool fitsPaged() const {
    return (limit.bytes == 0 || need.resident() <= limit.bytes) && !lacksFree();
  }
  /// Returns whether it is the weights in private memory for which there is too
  /// little free memory.
  bool lacksFree() const {
    return free > 0 && need.privateWeights() > 0 && need.resident() > free;
  }
  /// Returns whether it might run if no weights were in private memory.
  bool fitsMapped() const {
    return limit.bytes == 0 || need.withoutWeights() <= limit.bytes;
  }
};

/// Returns the memory that a plan needs whose CPU devices share `threads`
/// workers. The plan must have passed Plan::checkMachine. `free` is
/// MemoryFit::free.
MemoryFit memoryFit(const Plan &plan, int threads, bool copyWeights,
                    MemoryLimit limit, uint64_t free = 0);

/// Returns ok if the plan fits, or if `allowPaging` is set and only mapped
/// weights do not fit. Otherwise returns DoesNotFit with the sum, the limit and
/// a fix: a context, a number of sequences or a type of the cache that fits.
Status checkFit(const Plan &plan, const MemoryFit &fit, bool allowPaging);

/// Estimates the bytes of weights that each generated token has to read from
/// the disk because memory does not hold them. The estimate assumes that the
/// most used weights stay in memory and that tokens choose experts evenly. 0 if
/// all fit.
double pagedBytesPerToken(const Plan &plan, const MemoryFit &fit);

/// Returns one sentence for users about this cost; "" if all weights fit.
std::string pagingNote(const Plan &plan, const MemoryFit &fit);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_MEMORYFIT_H
