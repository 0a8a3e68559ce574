//===- Ladder.h - Which rung of a ladder runs -------------------*- C++ -*-===//
//
// A ladder is one file with plans of a model for several contexts or budgets of
// GPUs' memory (Plan.h). Where it is started, the rung is taken that holds what
// is asked for, else the largest context whose memory is free there now: on
// GPUs what their driver says, on the host what other programs leave, page
// cache included, as weights are mapped.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_LADDER_H
#define MOE_RUNTIME_ENGINE_LADDER_H

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// What is asked of the rung.
struct RungWish {
  uint32_t number = 0; ///< From 1; 0: whichever is right.
  int64_t context = 0; ///< Tokens that it has to hold; 0: as many as fit.
};

/// What a rung is and takes, in bytes.
struct RungNeed {
  int64_t context = 0;
  uint64_t host = 0;
  std::vector<uint64_t> gpus; ///< In the plan's order, which is the driver's.
};

struct FreeMemory {
  uint64_t host = 0;          ///< 0: the system does not tell.
  std::vector<uint64_t> gpus; ///< In the driver's order.
};

struct RungChoice {
  uint32_t number = 0; ///< From 1.
  bool fits = false; ///< What is named with RungWish::number is not looked at.
  /// One line for people: which it is, and why not a larger one, or, where a
  /// context is asked for, not one before it.
  std::string why;
};

/// The choice among `rungs`, which are in a ladder's order: of those that hold
/// wish.context the first context of which a rung fits, without a wish the
/// last; of several with one context, the one with most memory of GPUs that
/// fits. Where none fits, the least of them. DoesNotFit for a context that none
/// holds; wish.number is that of a rung, or 0.
StatusOr<RungChoice> chooseRung(std::span<const RungNeed> rungs,
                                const FreeMemory &free, const RungWish &wish);

/// How rungs would run here; tests describe other machines.
struct LadderMachine {
  int threads = 1;                               ///< Of all CPUs of the plan.
  bool copyWeights = false, allowPaging = false; ///< As in EngineOptions.
  std::string systemRoot = "/sys", processRoot = "/proc";
  std::string cudaLibrary = "libcuda.so.1";
  std::vector<std::string> models = {}; ///< The user's, for messages.
};

/// Lets `plan` be the rung that chooseRung() names for this machine. Where
/// paging is allowed and none fits, weights count no more. A plan that is no
/// ladder is taken if it is what is asked for; its choice has number 0 and
/// nothing to say. Fails as Plan::chooseNamed() and chooseRung().
StatusOr<RungChoice> takeRung(Plan &plan, const RungWish &wish,
                              const LadderMachine &machine);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_LADDER_H
