//===- ExplainJson.h - Parts of explain --json ------------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_EXPLAINJSON_H
#define MOE_COMPILER_EXPLAIN_EXPLAINJSON_H

#include "compiler/Explain/Summary.h"
#include "compiler/Explain/Timeline.h"

#include <nlohmann/json.hpp>

namespace moec {

/// What a device holds and the budget for it, in bytes.
nlohmann::ordered_json deviceJson(const DeviceMemory &memory);

/// Of the plan as a whole: model, options, files, devices, cache, predicted
/// rates and notes.
nlohmann::ordered_json planJson(const moert::fb::Plan &plan,
                                const ExplainSummary &summary);

/// A phase's step and sums; nothing of each op.
nlohmann::ordered_json phaseJson(const PhaseCost &phase);

/// What an op, or a row of several, costs and where: "device" to "seconds".
nlohmann::ordered_json costJson(const OpCost &op);

/// What was not chosen for it. `anyLayer`: texts as ofAnyLayer() has them.
nlohmann::ordered_json rejectedJson(const OpCost &op, bool anyLayer);

/// The queues of a phase's timeline.
nlohmann::ordered_json queuesJson(const Timeline &timeline);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_EXPLAINJSON_H
