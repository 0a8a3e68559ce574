//===- Ladder.h - The rungs of a ladder side by side ------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_LADDER_H
#define MOE_COMPILER_EXPLAIN_LADDER_H

#include "runtime/plan/Plan.h"

#include <nlohmann/json.hpp>
#include <string>

namespace moec {

/// A table of the rungs: context, what each device needs, predicted speed; ""
/// of what is no ladder.
std::string ladderText(const moert::Plan &plan);

/// The same as a list of objects; empty of what is no ladder.
nlohmann::ordered_json ladderJson(const moert::Plan &plan);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_LADDER_H
