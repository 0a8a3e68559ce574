//===- PlanWeights.h - Sizes of a plan's weights ----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_PLANWEIGHTS_H
#define MOE_RUNTIME_PLAN_PLANWEIGHTS_H

#include "runtime/plan/Plan.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

namespace fb {
struct Instruction;
} // namespace fb

/// Returns the bytes of all weights of the plan; bytes that several weights
/// share (two views of one tensor) count once.
uint64_t weightBytes(const Plan &plan);
/// Returns the bytes of weights that the host's memory has to hold, counted in
/// the same way: those that CPUs read, and GPUs that share that memory. Other
/// GPUs have weights in memory of their own.
uint64_t hostWeightBytes(const Plan &plan);
/// Returns those of them that are laid out in private memory while they load.
uint64_t loadedWeightBytes(const Plan &plan);
/// Returns the bytes of hostWeightBytes() that keep the file's layout and that
/// a GPU reads in the host's memory. They are copied to private memory, because
/// drivers pin no pages of files.
uint64_t pinnedWeightBytes(const Plan &plan);
/// Returns for each weight whether the host's memory has to hold it.
std::vector<bool> hostWeights(const Plan &plan);

/// Returns bytes by format; shared bytes count for each weight.
std::map<std::string, uint64_t> bytesByFormat(const Plan &plan);

/// Returns architecture, parameters and the format of most bytes, such as
/// "deepseek2 23.0 M Q4_K".
std::string modelType(const Plan &plan);

/// Returns the bytes of all weight matrices of the instruction.
uint64_t instructionWeightBytes(const Plan &plan,
                                const fb::Instruction &instruction);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_PLANWEIGHTS_H
