//===- PlanFacts.h - Figures about a plan that commands print ---*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_PLANFACTS_H
#define MOE_TOOLS_MOERT_PLANFACTS_H

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

/// What a step has to do with weights.
struct WeightWork {
  double bytes = 0; ///< Read, each weight once; of experts, those expected to
                    ///< be chosen by some token when tokens choose evenly.
  double ops = 0;   ///< Useful multiplies and adds of matrices, two per weight
                    ///< and token that it is applied to.

  WeightWork &operator+=(const WeightWork &other) {
    bytes += other.bytes;
    ops += other.ops;
    return *this;
  }
};

/// Of one instruction in a step of `tokens` tokens. Attention's products of
/// queries, keys and values are not in `ops`: they grow with the context. Nor
/// are a decompressed form's repeated expansions of cached rows: a row counts
/// once.
WeightWork weightWork(const Plan &plan, const fb::Instruction &instruction,
                      int32_t tokens);

/// Sum over the instructions of the phase called `name`; zeros if the plan has
/// none.
WeightWork phaseWork(const Plan &plan, std::string_view name, int32_t tokens);

} // namespace moert

#endif // MOE_TOOLS_MOERT_PLANFACTS_H
