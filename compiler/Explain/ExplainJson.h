//===- ExplainJson.h - Pieces of the JSON of explain ------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_EXPLAINJSON_H
#define MOE_COMPILER_EXPLAIN_EXPLAINJSON_H

#include "compiler/Explain/Summary.h"
#include "compiler/Explain/Timeline.h"

#include <nlohmann/json.hpp>

namespace moec {

/// Returns the memory that a device uses and its budget, in bytes.
nlohmann::ordered_json deviceJson(const DeviceMemory &memory);

/// Returns the properties of the whole plan: model, options, files, devices,
/// cache, predicted rates and notes.
nlohmann::ordered_json planJson(const moert::fb::Plan &plan,
                                const ExplainSummary &summary);

/// Returns a phase's step and sums, without its ops.
nlohmann::ordered_json phaseJson(const PhaseCost &phase);

/// Returns the cost and device of an op or of a row of ops: "device" to
/// "seconds".
nlohmann::ordered_json costJson(const OpCost &op);

/// Returns the rejected alternatives. With `anyLayer`, texts are as
/// ofAnyLayer() returns them.
nlohmann::ordered_json rejectedJson(const OpCost &op, bool anyLayer);

/// Returns the queues of a phase's timeline.
nlohmann::ordered_json queuesJson(const Timeline &timeline);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_EXPLAINJSON_H
