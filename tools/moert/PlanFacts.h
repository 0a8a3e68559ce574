//===- PlanFacts.h - Figures about a plan that commands print ---*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_PLANFACTS_H
#define MOE_TOOLS_MOERT_PLANFACTS_H

#include "runtime/Plan.h"

#include <map>
#include <string>

namespace moert {

/// Bytes of the files that some weight of the plan lies in; bytes that several
/// weights share (two views of one tensor) count once.
uint64_t weightBytes(const Plan &plan);

/// Bytes by format, shared bytes counted for each weight.
std::map<std::string, uint64_t> bytesByFormat(const Plan &plan);

/// "deepseek2 23.0 M Q4_K": architecture, parameters and the format that most
/// bytes have.
std::string modelType(const Plan &plan);

} // namespace moert

#endif // MOE_TOOLS_MOERT_PLANFACTS_H
