//===- RouterWatch.h - What routers choose ----------------------*- C++ -*-===//
//
// Buffers are reused within a step, so a router's choice is gone when the step
// ends. Watched devices therefore run the instructions of a step one at a time,
// in the plan's order, and read each choice before it is overwritten. Results
// are the same as without watching, but steps take longer.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_ROUTERWATCH_H
#define MOE_RUNTIME_ENGINE_ROUTERWATCH_H

#include "runtime/engine/MakeDevices.h"

#include <cstdint>
#include <functional>
#include <span>

namespace moert {

/// Experts that the router of a layer chose for the tokens of a step.
struct RouterChoice {
  int32_t layer;
  int64_t experts, topK;
  std::span<const int32_t> ids; ///< [tokens, topK], in no particular order.
  /// [tokens, topK], the weight of each expert.
  std::span<const float> weights;
};

/// Called on the thread that runs steps; its argument is valid during the call.
using RouterObserver = std::function<void(const RouterChoice &)>;

/// Wraps `devices` of `plan`, which must outlive them, so that `observer` is
/// called for every router in every step. To be used in
/// EngineOptions::makeDevices.
DeviceList watchRouters(const Plan &plan, DeviceList devices,
                        RouterObserver observer);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_ROUTERWATCH_H
