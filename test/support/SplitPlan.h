//===- SplitPlan.h - Splits a CPU plan over two CPU devices -----*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_SPLITPLAN_H
#define MOE_TEST_SUPPORT_SPLITPLAN_H

#include "runtime/schema/plan_generated.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace moetest {

/// Chooses the device of an instruction, 0 or 1.
using DeviceChoice = std::function<uint32_t(const moert::fb::PhaseT &phase,
                                            const moert::fb::InstructionT &)>;

/// Moves instructions of a plan with one CPU to a second one, "cpu1", with its
/// own arena and cache: adds copies of what one device writes and the other
/// reads, and orders the queues again. All instructions that touch a cache go
/// where the first of them is; weights are resident where they are read.
void splitPlan(moert::fb::PlanT &plan, const DeviceChoice &choice);

/// A range of bytes that an instruction reads or writes.
struct Access {
  int space; ///< 0: the arena, 1: a cache.
  uint32_t device;
  uint64_t begin, end;
  bool reads, writes;
  uint32_t index; ///< Index of the buffer or cache.

  bool conflicts(const Access &other) const {
    return (writes || other.writes) && space == other.space &&
           device == other.device && begin < other.end && other.begin < end;
  }
};

/// Returns the accesses to caches and to buffers, except buffers of which each
/// worker has a copy.
std::vector<Access> accessesOf(const moert::fb::PlanT &plan,
                               const moert::fb::PhaseT &phase,
                               const moert::fb::InstructionT &instruction);

/// Sets the fewest barriers and waits that order a phase's instructions.
void orderQueues(const moert::fb::PlanT &plan, moert::fb::PhaseT &phase);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_SPLITPLAN_H
