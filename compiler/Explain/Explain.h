//===- Explain.h - The reports of moec explain ------------------*- C++ -*-===//
//
// Prints the explanation in a plan: the memory of each device, the device of
// every op and why, and the speed that the cost model predicts. Nothing is
// decided or estimated here; costs are those that the compiler recorded for the
// phase's typical step (compiler/Machine/CostModel/TypicalStep.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_EXPLAIN_EXPLAIN_H
#define MOE_COMPILER_EXPLAIN_EXPLAIN_H

#include "runtime/plan/Plan.h"

#include <string>

namespace moec {

/// Returns a report of at most 120 columns. Ops of several layers with equal
/// figures share a row, "blk.3-60.attn_q x58", which has their sums; with
/// `full`, every op has a row. Names from the plan are escaped.
std::string explainText(const moert::fb::Plan &plan, bool full);
/// For a ladder, returns a table of its rungs and the report on the chosen one.
std::string explainText(const moert::Plan &plan, bool full);

/// Returns the same, with every op, as one JSON object. Sizes are in bytes,
/// times in seconds; values that the plan does not record are null.
std::string explainJson(const moert::fb::Plan &plan);
/// For a ladder, returns the chosen rung, with its number and all "rungs".
std::string explainJson(const moert::Plan &plan);

/// Returns the content of explainJson() as one self-contained HTML page:
/// memory, a roofline, a timeline of a step, and a table of ops, in which
/// similar layers share a row. Texts from the plan cannot become markup.
std::string explainHtml(const moert::fb::Plan &plan);
/// For a ladder, returns the chosen rung and a table of all rungs.
std::string explainHtml(const moert::Plan &plan);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_EXPLAIN_H
