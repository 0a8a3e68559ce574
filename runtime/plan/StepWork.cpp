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

/// Sum over the instructions of the phases that `chosen` takes.
template <class Chosen>
static StepWork sumOf(const Plan &plan, StepSize step, Chosen chosen) {
  StepWork work;
  for (const fb::Phase *phase : *plan.table().phases())
    if (chosen(*phase))
      for (uint32_t i = 0; i < count(phase->instructions()); ++i)
        work += instructionWork(*phase->instructions()->Get(i), step);
  return work;
}

StepWork phaseWork(const Plan &plan, std::string_view name, StepSize step) {
  return sumOf(plan, step, [&](const fb::Phase &phase) {
    return text(phase.name()) == name;
  });
}

StepWork sequenceWork(const Plan &plan, StepSize step) {
  return sumOf(plan, step, [&](const fb::Phase &phase) {
    bool ofOne = text(phase.name()) == "decode" ||
                 text(phase.name()) == "prefill" ||
                 text(phase.name()) == "streamed_prefill";
    return ofOne && phase.min_tokens() <= step.tokens &&
           phase.max_tokens() >= step.tokens;
  });
}

} // namespace moert
