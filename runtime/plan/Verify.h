//===- Verify.h - The semantic verifier of plans ----------------*- C++ -*-===//
//
// Runs on a structurally sound flatbuffer. What these functions prove holds for
// plans of every target, GPUs included; what depends on an op's shapes is in
// runtime/prove/Prove.h.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PLAN_VERIFY_H
#define MOE_RUNTIME_PLAN_VERIFY_H

#include "runtime/base/Status.h"

#include <cstdint>

namespace moert {

namespace fb {
struct Plan;
struct Phase;
struct Tokenizer;
} // namespace fb

/// Upper bounds on numbers in a plan. Far above any real model, and low enough
/// that products of two or three of them cannot overflow int64_t.
inline constexpr int64_t kMaxDimension = int64_t(1) << 31; ///< Exclusive.
inline constexpr int64_t kMaxParameter = int64_t(1) << 24; ///< Op integers.
inline constexpr int64_t kMaxUbatch = int64_t(1) << 20;
/// Of a phase. Data-flow checks take instructions times regions steps, so these
/// bound the time a hostile plan can take to a second or two.
inline constexpr uint32_t kMaxInstructions = 1u << 15;
inline constexpr uint32_t kMaxBuffers = 1u << 13;
inline constexpr uint32_t kMaxCaches = 1u << 12;
inline constexpr uint32_t kMaxQueues = 64; ///< Of a plan.
inline constexpr int32_t kMaxNodes = 64;   ///< Of a CPU's memory.
inline constexpr uint64_t kMaxHazardChecks = uint64_t(1) << 32;
inline constexpr uint32_t kMaxLaunches = 1u << 12; ///< Of an instruction.

/// Files, weights, constants, devices, queues, modules, residency, caches,
/// kernel names, tokenizer.
/// WrongMachine where the plan is another version's, which the caller ends with
/// the command that compiles it anew; else InvalidFile.
Status verifyTables(const fb::Plan &plan);

/// Phases, buffers, and the form of every instruction: known op, operand and
/// parameter counts, operand kinds, every index in range; weights resident and
/// other operands in memory where the instruction runs, but for copies;
/// launches on GPUs alone, of grids and blocks that these take; events that are
/// signalled once, before they are waited for. Needs verifyTables().
Status verifyPhases(const fb::Plan &plan);

/// Both.
Status verifyPlan(const fb::Plan &plan);

/// verifyPlan() of each rung, the message of whose failure begins with its
/// number; that they are of one model and in order (runtime/schema/plan.fbs),
/// and that nothing is beside them.
Status verifyLadder(const fb::Plan &ladder);
inline constexpr uint32_t kMaxRungs = 64;

/// Of a plan's own, or of a ladder's for one of its rungs.
Status verifyTokenizer(const fb::Plan &plan, const fb::Tokenizer &tokenizer);

/// That no instruction reads what was not written before it in its phase or was
/// overwritten since; that workers and queues never race (barriers and events
/// order a write and every other access to the same bytes, whoever makes it; so
/// that any schedule computes what the list in its order does); that
/// reads and writes of one instruction overlap only where its kernel allows;
/// and that indices into tables (token ids, expert slots) come from an
/// instruction that bounds them. Needs verifyPhases().
Status verifyDataflow(const fb::Plan &plan, const fb::Phase &phase);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_VERIFY_H
