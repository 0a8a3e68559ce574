//===- MemoryFit.h - Whether a plan fits this machine's memory --*- C++ -*-===//
//
// The estimate counts the bytes of the files that hold weights, the KV cache of
// all sequences, activations and the scratch memory of each worker. The sum is
// compared with the most that this process may use: the machine's memory or the
// limit of its control group. Memory that other programs use at the moment is
// not subtracted. A plan whose mapped weights exceed the limit can still run,
// but their pages are read from the disk again and again. This is so slow that
// the user has to allow it.
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
  uint64_t weights = 0; ///< If mapped, each byte of the files counts once.
  uint64_t kv = 0, activations = 0;
  uint64_t workers = 0; ///< Scratch memory of all workers together.
  int threads = 1;      ///< Number of workers.
  /// Of the weights, those that are laid out in private memory while they load.
  uint64_t loaded = 0;
  /// Whether all weights are private copies, which cannot be paged.
  bool copied = false;

  /// Bytes that cannot be paged to a file.
  uint64_t resident() const {
    return kv + activations + workers + (copied ? weights : loaded);
  }
  uint64_t total() const { return weights + kv + activations + workers; }
};

struct MemoryFit {
  MemoryNeed need;
  MemoryLimit limit;

  bool fits() const { return limit.bytes == 0 || need.total() <= limit.bytes; }
  /// Returns whether it runs if mapped weights are paged from their files.
  bool fitsPaged() const {
    return limit.bytes == 0 || need.resident() <= limit.bytes;
  }
};

/// Returns the memory that a plan needs whose CPU devices share `threads`
/// workers. The plan must have passed Plan::checkMachine.
MemoryFit memoryFit(const Plan &plan, int threads, bool copyWeights,
                    MemoryLimit limit);

/// Returns ok if the plan fits, or if `allowPaging` is set and only mapped
/// weights do not fit. Otherwise returns DoesNotFit with the sum, the limit and
/// a fix.
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
