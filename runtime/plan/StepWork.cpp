#include "runtime/plan/StepWork.h"

#include "runtime/plan/PlanAccess.h"

#include <cmath>

namespace moert {

StepWork instructionWork(const fb::Instruction &instruction, StepSize step) {
  const fb::Work *work = instruction.work();
  if (!work)
    return {};
  double again = work->again();
  double reads = again < 1 ? (1 - std::pow(again, step.tokens)) / (1 - again)
                           : step.tokens;
  return {work->first_bytes() * reads,
          step.tokens * (work->token_ops() + step.seen * work->seen_ops()) +
              step.rows * work->row_ops()};
}

/// Returns the sum over all phases for which `chosen` is true.
template <class Chosen>
static StepWork sumOf(const Plan &plan, StepSize step, Chosen chosen) {
  StepWork work;
  for (const fb::Phase *phase : *plan.table().phases())
    if (chosen(*phase))
      for (uint32_t i = 0; i < count(phase->instructions()); ++i)
        work += instructionWork(*phase->instructions()->Get(i), step);
  return work;
}

StepWork phaseWork(const Plan &plan, PhaseKind kind, StepSize step) {
  return sumOf(plan, step,
               [&](const fb::Phase &phase) { return kindOf(phase) == kind; });
}

StepWork sequenceWork(const Plan &plan, StepSize step) {
  return sumOf(plan, step, [&](const fb::Phase &phase) {
    const PhaseRows rows = rowsOf(kindOf(phase));
    bool ofOneSequence = rows == PhaseRows::Next || rows == PhaseRows::Prompt;
    return ofOneSequence && phase.min_tokens() <= step.tokens &&
           phase.max_tokens() >= step.tokens;
  });
}

} // namespace moert
