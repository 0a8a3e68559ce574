//===- MemoryFit.h - Whether a plan fits this machine's memory --*- C++ -*-===//
//
// What is counted: the bytes of files that weights lie in, the KV cache of all
// sequences, activations, and what each worker has for itself. They are
// compared with what this process may use at most, the machine's memory or the
// limit of its control group; what other programs take of it at the moment is
// not subtracted. Mapped weights beyond that do not fail: pages of them are
// read from the disk again and again, which is slow enough to be asked for.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_MEMORYFIT_H
#define MOE_RUNTIME_ENGINE_MEMORYFIT_H

#include "runtime/base/HostCpu.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <string>

namespace moert {

/// In bytes.
struct MemoryNeed {
  uint64_t weights = 0; ///< Mapped: of files, each byte once.
  uint64_t kv = 0, activations = 0;
  uint64_t workers = 0; ///< All of them together.
  int threads = 1;      ///< How many they are.
  /// Weights are private copies of whole files, which cannot be paged.
  bool copied = false;

  /// What cannot be paged to a file.
  uint64_t resident() const {
    return kv + activations + workers + (copied ? weights : 0);
  }
  uint64_t total() const { return weights + kv + activations + workers; }
};

struct MemoryFit {
  MemoryNeed need;
  MemoryLimit limit;

  bool fits() const { return limit.bytes == 0 || need.total() <= limit.bytes; }
  /// Whether it runs when mapped weights are paged from their files.
  bool fitsPaged() const {
    return limit.bytes == 0 || need.resident() <= limit.bytes;
  }
};

/// Of a plan whose devices are CPUs (Plan::checkMachine), which share `threads`
/// workers.
MemoryFit memoryFit(const Plan &plan, int threads, bool copyWeights,
                    MemoryLimit limit);

/// Ok where it fits, or where `allowPaging` and only mapped weights do not.
/// Otherwise DoesNotFit with the sum, the limit and the way out.
Status checkFit(const Plan &plan, const MemoryFit &fit, bool allowPaging);

/// Bytes of weights that each generated token has to read from the disk because
/// memory does not hold them: an estimate, as if the most used weights stayed
/// in memory and tokens chose experts evenly. 0 where everything fits.
double pagedBytesPerToken(const Plan &plan, const MemoryFit &fit);

/// What that costs, as one sentence for people; "" where everything fits.
std::string pagingNote(const Plan &plan, const MemoryFit &fit);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_MEMORYFIT_H
