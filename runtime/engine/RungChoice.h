//===- RungChoice.h - Which rung of a ladder runs ---------------*- C++ -*-===//
//
// A ladder is one file with several plans of a model, called rungs, for
// different contexts or budgets of GPU memory (Plan.h). At start the runtime
// takes a rung that holds the requested context or, without a request, the one
// with the largest context whose memory is free now. On GPUs, free memory is
// what the driver reports; on the host it includes the page cache, as weights
// are mapped.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_RUNGCHOICE_H
#define MOE_RUNTIME_ENGINE_RUNGCHOICE_H

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// The user's request for a rung.
struct RungRequest {
  /// Counted from 1; 0: choose by context and free memory.
  uint32_t number = 0;
  /// Tokens that it has to hold, and the most that a sequence may have; 0: as
  /// many as fit.
  int64_t context = 0;
};

/// Context of a rung and the memory that it needs, in bytes.
struct RungNeed {
  int64_t context = 0;
  uint64_t host = 0;
  /// In the plan's order, which is that of the driver.
  std::vector<uint64_t> gpus;
};

struct FreeMemory {
  uint64_t host = 0; ///< Free bytes; 0: unknown.
  /// Free bytes of each GPU, in the driver's order.
  std::vector<uint64_t> gpus;
};

struct RungChoice {
  uint32_t number = 0; ///< Counted from 1.
  /// Not determined for a rung that the user chose by number.
  bool fits = false;
  /// One line for users: the rung, and why no larger one (or, where a context
  /// was requested, no smaller one) was chosen.
  std::string why;
};

/// Chooses one of `rungs`, which are in the ladder's order. Candidates are
/// those that hold wish.context. With a requested context, the smallest context
/// that fits wins; without one, the largest. Among rungs of equal context, the
/// one that uses most GPU memory and fits wins. If none fits, the smallest
/// candidate is returned. Fails with DoesNotFit for a context that no rung
/// holds. wish.number is the number of a rung, or 0.
StatusOr<RungChoice> chooseRung(std::span<const RungNeed> rungs,
                                const FreeMemory &free,
                                const RungRequest &wish);

/// Conditions under which a rung would run here; tests describe other machines.
struct LadderMachine {
  int threads = 1; ///< Threads that all CPUs of the plan share.
  /// Same meaning as in EngineOptions.
  bool copyWeights = false, allowPaging = false;
  std::string systemRoot = "/sys", processRoot = "/proc";
  std::string cudaLibrary = "libcuda.so.1";
  /// Paths as given by the user, for messages.
  std::vector<std::string> models = {};
};

/// Selects the rung of `plan` that chooseRung() returns for this machine. If
/// none fits and paging is allowed, chooses again without counting mapped
/// weights. A plan that is not a ladder is accepted if it meets the request;
/// the choice then has number 0 and no text. Returns the errors of
/// Plan::chooseNamed() and chooseRung().
StatusOr<RungChoice> takeRung(Plan &plan, const RungRequest &wish,
                              const LadderMachine &machine);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_RUNGCHOICE_H
