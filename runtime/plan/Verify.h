//===- Verify.h - The semantic verifier of plans ----------------*- C++ -*-===//
//
// Verifies a structurally sound flatbuffer. These functions prove properties
// that hold for plans of every target, GPUs included. Properties that depend on
// the shapes of ops are proved in runtime/prove/Prove.h.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PLAN_VERIFY_H
#define MOE_RUNTIME_PLAN_VERIFY_H

#include "runtime/base/Status.h"
#include "runtime/schema/OpTable.h" // For kMaxParameter.

#include <cstdint>

namespace moert {

namespace fb {
struct Plan;
struct Phase;
struct Tokenizer;
} // namespace fb

/// Upper bounds on numbers in a plan. Far above any real model, and low enough
/// that products of two or three of them cannot overflow int64_t.
/// The first value that is too large.
inline constexpr int64_t kMaxDimension = int64_t(1) << 31;
inline constexpr int64_t kMaxUbatch = int64_t(1) << 20;
/// Limits of a phase. Data-flow checks take instructions times regions
/// operations, so the limits bound the time for a hostile plan to a second or
/// two.
inline constexpr uint32_t kMaxInstructions = 1u << 15;
inline constexpr uint32_t kMaxBuffers = 1u << 13;
inline constexpr uint32_t kMaxCaches = 1u << 12;
inline constexpr uint32_t kMaxQueues = 64; ///< The most queues of a plan.
inline constexpr int32_t kMaxNodes = 64;   ///< The most memory nodes of a CPU.
inline constexpr uint64_t kMaxHazardChecks = uint64_t(1) << 32;
/// The most launches of an instruction.
inline constexpr uint32_t kMaxLaunches = 1u << 12;

/// Verifies files, weights, constants, devices, queues, modules, residency,
/// caches, kernel names and the tokenizer. Returns WrongMachine for a plan of
/// another version, to which the caller adds the command that recompiles it;
/// else InvalidFile.
Status verifyTables(const fb::Plan &plan);

/// Verifies phases, buffers, and the form of every instruction: a known op;
/// numbers of operands and parameters; kinds of operands; all indices in range;
/// weights resident, and other operands in memory, on the device that runs the
/// instruction, except for copies; launches only on GPUs, with valid grids and
/// blocks; events signalled once, before any wait for them. Needs
/// verifyTables().
Status verifyPhases(const fb::Plan &plan);

/// Calls verifyTables() and verifyPhases().
Status verifyPlan(const fb::Plan &plan);

/// Calls verifyPlan() for each rung; its errors name the rung's number.
/// Verifies that rungs are of one model and in order (runtime/schema/plan.fbs),
/// and that the ladder has no tables of its own.
Status verifyLadder(const fb::Plan &ladder);
inline constexpr uint32_t kMaxRungs = 64;

/// Verifies the tokenizer of a plan, or that of a ladder for one of its rungs.
Status verifyTokenizer(const fb::Plan &plan, const fb::Tokenizer &tokenizer);

/// Verifies four properties. Instructions read only data that was written
/// before them in the phase and not overwritten since. Workers and queues never
/// race: barriers or events order a write and every other access to the same
/// bytes, so that any schedule computes the same as the list in its order.
/// Reads and writes of one instruction overlap only where its kernel allows it.
/// Indices into tables (token ids, expert slots) come from an instruction that
/// bounds them. Needs verifyPhases().
Status verifyDataflow(const fb::Plan &plan, const fb::Phase &phase);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_VERIFY_H
