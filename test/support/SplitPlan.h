//===- SplitPlan.h - A plan of one CPU on two, for tests --------*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_SPLITPLAN_H
#define MOE_TEST_SUPPORT_SPLITPLAN_H

#include "runtime/schema/plan_generated.h"

#include <cstdint>
#include <functional>

namespace moetest {

/// The device of an instruction, 0 or 1.
using DeviceChoice = std::function<uint32_t(const moert::fb::PhaseT &phase,
                                            const moert::fb::InstructionT &)>;

/// Moves instructions of a plan with one CPU to a second one, "cpu1", with an
/// arena and a cache of its own: adds copies of what one makes and the other
/// reads, and orders the queues anew. What touches a cache goes where the first
/// such instruction is; weights are resident where they are read.
void splitPlan(moert::fb::PlanT &plan, const DeviceChoice &choice);

/// The least barriers and waits that order a phase's instructions.
void orderQueues(const moert::fb::PlanT &plan, moert::fb::PhaseT &phase);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_SPLITPLAN_H
