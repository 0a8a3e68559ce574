//===- RouterWatch.h - What routers choose ----------------------*- C++ -*-===//
//
// Buffers of a step are used for one thing after the other, so that a router's
// choice is gone when the step ends. Watched devices therefore run a step's
// instructions one at a time, in the plan's order, and look between them: the
// results are the same, the time is not.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_ROUTERWATCH_H
#define MOE_RUNTIME_ENGINE_ROUTERWATCH_H

#include "runtime/engine/MakeDevices.h"

#include <cstdint>
#include <functional>
#include <span>

namespace moert {

/// What the router of a layer chose for the rows of a step.
struct RouterChoice {
  int32_t layer;
  int64_t experts, topK;
  std::span<const int32_t> ids;   ///< [rows, topK], in no order.
  std::span<const float> weights; ///< [rows, topK], the factors of each.
};

/// Valid during the call. On the thread that runs steps.
using RouterObserver = std::function<void(const RouterChoice &)>;

/// `devices` of `plan`, which outlives them, such that `observer` is told of
/// every router of every step. For EngineOptions::makeDevices.
DeviceList watchRouters(const Plan &plan, DeviceList devices,
                        RouterObserver observer);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_ROUTERWATCH_H
