//===- LadderTable.h - Compares the rungs of a ladder -----------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_LADDERTABLE_H
#define MOE_COMPILER_EXPLAIN_LADDERTABLE_H

#include "runtime/plan/Plan.h"

#include <nlohmann/json.hpp>
#include <string>

namespace moec {

/// Returns a table of the rungs: context, the memory that each device needs,
/// predicted speed. Returns "" for a plan that is no ladder.
std::string ladderText(const moert::Plan &plan);

/// Returns the same as a list of objects; empty for a plan that is no ladder.
nlohmann::ordered_json ladderJson(const moert::Plan &plan);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_LADDERTABLE_H
