#include "runtime/StepWork.h"

#include "runtime/PlanAccess.h"

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

StepWork phaseWork(const Plan &plan, std::string_view name, StepSize step) {
  StepWork work;
  for (const fb::Phase *phase : *plan.table().phases())
    if (text(phase->name()) == name)
      for (const fb::Instruction *instruction : *phase->instructions())
        work += instructionWork(*instruction, step);
  return work;
}

} // namespace moert
