//===- StepWork.h - Bytes read and operations of a step ---------*- C++ -*-===//
//
// Sums the figures that the compiler recorded with each instruction (Work in
// runtime/schema/plan.fbs) for a step.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PLAN_STEPWORK_H
#define MOE_RUNTIME_PLAN_STEPWORK_H

#include "runtime/plan/Plan.h"
#include "runtime/schema/PhaseKind.h"

namespace moert {

namespace fb {
struct Instruction;
} // namespace fb

struct StepWork {
  /// Bytes of weights, each counted once. Of experts, those that are expected
  /// to be chosen by at least one token if tokens choose evenly.
  double bytes = 0;
  /// Multiplies and adds: two per weight and token that it is applied to, and
  /// those of attention.
  double ops = 0;

  StepWork &operator+=(const StepWork &other) {
    bytes += other.bytes;
    ops += other.ops;
    return *this;
  }
};

/// The quantities of a step that its work depends on.
struct StepSize {
  double tokens;
  double seen; ///< Mean cached rows that a token sees, its own included.
  double rows; ///< Cached rows that at least one token sees.

  /// A step of `tokens` after `cached` others, all of the same sequence.
  static StepSize after(double cached, double tokens) {
    return {tokens, cached + (tokens + 1) / 2, cached + tokens};
  }
  /// A step with one token of each of several sequences, which see `seen` rows
  /// each.
  static StepSize ofSequences(double sequences, double seen) {
    return {sequences, seen, sequences * seen};
  }
};

/// Returns zeros if the plan does not record the instruction's work.
StepWork instructionWork(const fb::Instruction &instruction, StepSize step);

/// Returns the sum over the instructions of the phase of this kind, and zeros
/// if the plan has none.
StepWork phaseWork(const Plan &plan, PhaseKind kind, StepSize step);

/// Returns the work of a step of one sequence, in the phase for this number of
/// tokens.
StepWork sequenceWork(const Plan &plan, StepSize step);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_STEPWORK_H
