//===- TypicalStep.h - The step for which costs are stated ------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_COSTMODEL_TYPICALSTEP_H
#define MOE_COMPILER_MACHINE_COSTMODEL_TYPICALSTEP_H

#include "runtime/schema/PhaseKind.h"

#include <cstdint>

namespace moec {

/// The most tokens of a prompt's step if the user names no other, and with
/// experts that are streamed (passes/moe/placement/WholePlan.h).
inline constexpr int64_t kUbatch = 512, kLongUbatch = 4096;

struct TypicalStep {
  int64_t tokens;
  int64_t cached; ///< Cached positions before the step.
};

/// Returns the step for which passes compare costs and a plan's explanation
/// states them. Decode: the most tokens of the phase after half of the context,
/// which is the mean over a conversation that fills the context; the same for
/// every sequence of a batch. Prefill: the most tokens, in the middle of a
/// prompt that fills half of the context. Phases for any rows: one row, after
/// half of the context unless the phase only computes logits.
inline TypicalStep typicalStep(moert::PhaseKind phase, int64_t maxTokens,
                               int64_t context) {
  return {moert::rowsOf(phase) == moert::PhaseRows::Any ? 1 : maxTokens,
          moert::has(phase, moert::kIsHead) ? 0
          : moert::isPrefill(phase)         ? context / 4
                                            : context / 2};
}

} // namespace moec

#endif // MOE_COMPILER_MACHINE_COSTMODEL_TYPICALSTEP_H
