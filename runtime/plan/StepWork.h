//===- StepWork.h - What a step reads and computes --------------*- C++ -*-===//
//
// Figures that the compiler recorded with each instruction (Work in
// runtime/schema/plan.fbs), put together for a step.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PLAN_STEPWORK_H
#define MOE_RUNTIME_PLAN_STEPWORK_H

#include "runtime/plan/Plan.h"

#include <string_view>

namespace moert {

namespace fb {
struct Instruction;
} // namespace fb

struct StepWork {
  double bytes = 0; ///< Of weights, each once; of experts, those expected to
                    ///< be chosen by some token when tokens choose evenly.
  double ops = 0;   ///< Multiplies and adds, two per weight and token that it
                    ///< is applied to, and attention's.

  StepWork &operator+=(const StepWork &other) {
    bytes += other.bytes;
    ops += other.ops;
    return *this;
  }
};

/// A step as far as work depends on it.
struct StepSize {
  double tokens;
  double seen; ///< Cached rows that a token sees, its own included; the mean.
  double rows; ///< Cached rows that some token sees.

  /// `tokens` after `cached` others: a token sees those and what precedes it.
  static StepSize after(double cached, double tokens) {
    return {tokens, cached + (tokens + 1) / 2, cached + tokens};
  }
  /// One token of each of several sequences, which see `seen` rows each.
  static StepSize ofSequences(double sequences, double seen) {
    return {sequences, seen, sequences * seen};
  }
};

/// Nothing where the plan records nothing.
StepWork instructionWork(const fb::Instruction &instruction, StepSize step);

/// Sum over the instructions of the phase called `name`; zeros if the plan has
/// none.
StepWork phaseWork(const Plan &plan, std::string_view name, StepSize step);

/// Of a step of `step.tokens` tokens of one sequence: of the phase that takes
/// so many.
StepWork sequenceWork(const Plan &plan, StepSize step);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_STEPWORK_H
