//===- PlanFacts.h - Figures about a plan ----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLANFACTS_H
#define MOE_RUNTIME_PLANFACTS_H

#include "runtime/Plan.h"

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

/// Bytes by format, shared bytes counted for each weight.
std::map<std::string, uint64_t> bytesByFormat(const Plan &plan);

/// "deepseek2 23.0 M Q4_K": architecture, parameters and the format that most
/// bytes have.
std::string modelType(const Plan &plan);

/// What a step has to read and to compute.
struct StepWork {
  double bytes = 0; ///< Of weights, each once; of experts, those expected to
                    ///< be chosen by some token when tokens choose evenly.
  double ops = 0;   ///< Useful multiplies and adds: two per weight and token
                    ///< that it is applied to, and attention's products of
                    ///< queries, keys and values.

  StepWork &operator+=(const StepWork &other) {
    bytes += other.bytes;
    ops += other.ops;
    return *this;
  }
};

/// A step as far as work depends on it. `attended` is the mean number of cached
/// rows that a token attends to, its own included.
struct StepSize {
  int32_t tokens;
  double attended;

  /// `tokens` after `cached` others: a token sees those and what precedes it.
  static StepSize after(int32_t cached, int32_t tokens) {
    return {tokens, cached + (tokens + 1) / 2.0};
  }
};

/// Of all matrices that the instruction takes from the plan's weights.
uint64_t instructionWeightBytes(const Plan &plan,
                                const fb::Instruction &instruction);

/// Of one instruction. A decompressed form's repeated expansions of cached rows
/// are not useful: a row counts once.
StepWork instructionWork(const Plan &plan, const fb::Instruction &instruction,
                         StepSize step);

/// Sum over the instructions of the phase called `name`; zeros if the plan has
/// none.
StepWork phaseWork(const Plan &plan, std::string_view name, StepSize step);

} // namespace moert

#endif // MOE_RUNTIME_PLANFACTS_H
