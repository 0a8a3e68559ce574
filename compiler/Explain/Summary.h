//===- Summary.h - Sums over a plan's explanation ---------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_SUMMARY_H
#define MOE_COMPILER_EXPLAIN_SUMMARY_H

#include "compiler/Machine/CostModel/TypicalStep.h"
#include "runtime/schema/plan_generated.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moec {

/// What plan-overhead calls the seconds that devices save by working at the
/// same time.
inline constexpr std::string_view kOverlapPart = "overlap";

/// A device, kernel or layout that an op, or the weight `of`, does not have.
struct RejectedCost {
  std::string_view kind, name, of, chosen, reason;
  std::optional<double> seconds; ///< None where it cannot be done by it.
  double chosenSeconds = 0;
};

/// One op in one phase. Views into the plan. A cost that is no number of at
/// least zero counts as zero.
struct OpCost {
  std::string_view part; ///< "ffn_experts"
  int layer = -1;        ///< Outside of layers -1.
  std::string_view device, kernel, reason;
  double flops = 0, weightBytes = 0, activationBytes = 0, kvBytes = 0;
  double seconds = 0;
  std::vector<RejectedCost> rejected = {};

  /// FLOPs per byte of weights read; none for an op without weights.
  std::optional<double> intensity() const;
};

struct PhaseCost {
  std::string_view name;
  int32_t minTokens = 0, maxTokens = 0;
  TypicalStep step = {};
  std::vector<OpCost> ops;
  double flops = 0, weightBytes = 0, seconds = 0; ///< Sums over the ops.
  /// Seconds by device, in the order in which the ops come to them.
  std::vector<std::pair<std::string_view, double>> deviceSeconds;
};

/// "512 tokens after 1024 in the cache".
std::string stepText(const PhaseCost &phase);

/// What a device's memory holds, in bytes.
struct DeviceMemory {
  const moert::fb::Device *device = nullptr;
  uint64_t scratch = 0; ///< Of all workers, one per core, or of a GPU.
  uint64_t used = 0;    ///< Weights, cache, activations and scratch.

  /// Of the budget; none when the plan records no budget.
  std::optional<double> usedFraction() const;
  /// "fits", "tight" (above 95 % of the budget), "over" or "unknown".
  std::string_view state() const;
};

struct ExplainSummary {
  explicit ExplainSummary(const moert::fb::Plan &plan);

  std::vector<DeviceMemory> devices;
  /// The compiler's remarks that the plan carries, and what it needs that moert
  /// does not have.
  std::vector<std::string_view> notes;
  double kvBytesPerToken = 0, kvBytes = 0; ///< kvBytes: for kvRoom.
  double stateBytes = 0; ///< Of layers with a state of each sequence.
  /// Of layers that keep a sequence's last rows, and how many of them at most.
  double windowBytes = 0;
  uint64_t windowLayers = 0;
  int64_t windowRows = 0;
  std::string
      kvRoom; ///< What the cache holds, as runtime/plan/PlanAccess.h says it.
  std::vector<PhaseCost> phases;

  const PhaseCost *phase(std::string_view name) const;
  /// Of the longest steps of prompts, those of --ubatch tokens: where experts
  /// are streamed to a GPU they have a phase of their own. Null without one.
  const PhaseCost *prefill() const;
  /// Tokens of a prompt per second, in such steps. None without a prefill phase
  /// or a time.
  std::optional<double> prefillRate() const;
  /// Seconds from one generated token to the next, and its inverse: the step
  /// plus the logits of each of its tokens. None without a decode phase or a
  /// time.
  std::optional<double> decodeSecondsPerToken() const;
  std::optional<double> decodeRate() const;
  /// Tokens that all sequences of a batch generate together per second, logits
  /// included. None without a batch phase or a time.
  std::optional<double> batchRate() const;

private:
  void addMemory(const moert::fb::Plan &plan);
  void addCosts(const moert::fb::Plan &plan);
  void addNotes(const moert::fb::Plan &plan);
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_SUMMARY_H
