//===- Explain.h - What moec explain prints ---------------------*- C++ -*-===//
//
// Renders the explanation that a plan carries: what each device holds, where
// every op runs and why, and the speed the cost model predicts. Nothing is
// decided or estimated here; costs are those that the compiler wrote down for
// the phase's typical step (compiler/Machine/CostModel/TypicalStep.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_EXPLAIN_EXPLAIN_H
#define MOE_COMPILER_EXPLAIN_EXPLAIN_H

#include "runtime/plan/Plan.h"

#include <string>

namespace moec {

/// A report of at most 120 columns. Ops of several layers that are alike in
/// every figure share a row, "blk.3-60.attn_q x58", whose figures are their
/// sums; `full` gives every op a row. Names from the plan are escaped.
std::string explainText(const moert::fb::Plan &plan, bool full);
/// Of a ladder a table of its rungs, and the report on the chosen one.
std::string explainText(const moert::Plan &plan, bool full);

/// The same and every op by itself, as one JSON object. Sizes are in bytes,
/// times in seconds; what the plan does not tell is null.
std::string explainJson(const moert::fb::Plan &plan);
/// Of a ladder the chosen rung, with its number and all "rungs".
std::string explainJson(const moert::Plan &plan);

/// The facts of explainJson() as one HTML page that loads nothing: memory, a
/// roofline, when a step does what, and the ops in a table. Layers alike share
/// a row. Texts from the plan stay text, whatever is in them.
std::string explainHtml(const moert::fb::Plan &plan);
/// Of a ladder the chosen rung, beside a table of all.
std::string explainHtml(const moert::Plan &plan);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_EXPLAIN_H
