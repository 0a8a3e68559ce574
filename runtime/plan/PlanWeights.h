//===- PlanWeights.h - Which bytes weights take -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_PLANWEIGHTS_H
#define MOE_RUNTIME_PLAN_PLANWEIGHTS_H

#include "runtime/plan/Plan.h"

#include <map>
#include <string>
#include <string_view>

namespace moert {

namespace fb {
struct Instruction;
} // namespace fb

/// Bytes of the files that some weight of the plan lies in; bytes that several
/// weights share (two views of one tensor) count once.
uint64_t weightBytes(const Plan &plan);
/// Likewise of those that CPUs read, and the host's memory has to hold: a GPU's
/// are in its own.
uint64_t hostWeightBytes(const Plan &plan);

/// Bytes by format, shared bytes counted for each weight.
std::map<std::string, uint64_t> bytesByFormat(const Plan &plan);

/// "deepseek2 23.0 M Q4_K": architecture, parameters and the format that most
/// bytes have.
std::string modelType(const Plan &plan);

/// Of all matrices that the instruction takes from the plan's weights.
uint64_t instructionWeightBytes(const Plan &plan,
                                const fb::Instruction &instruction);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_PLANWEIGHTS_H
