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

/// Part name of plan-overhead's entry for the seconds that devices save by
/// working at the same time.
inline constexpr std::string_view kOverlapPart = "overlap";

/// A device, kernel or layout that was rejected for an op, or for its weight
/// `of`.
struct RejectedCost {
  std::string_view kind, name, of, chosen, reason;
  std::optional<double> seconds; ///< None if it cannot run the op.
  double chosenSeconds = 0;
};

/// One op in one phase. Contains views into the plan. Costs that are negative
/// or no numbers are replaced by zero.
struct OpCost {
  std::string_view part; ///< "ffn_experts"
  int layer = -1;        ///< -1 outside of layers.
  std::string_view device, kernel, reason;
  double flops = 0, weightBytes = 0, activationBytes = 0, kvBytes = 0;
  /// Bytes that the op's weights and cache take in memory: of all experts, and
  /// for the whole context. A table that stays in the file takes none.
  double heldBytes = 0;
  double seconds = 0;
  std::vector<RejectedCost> rejected = {};

  /// FLOPs per byte of weights and cache that the op reads, or of activations
  /// if it reads neither; none for an op that reads nothing.
  std::optional<double> intensity() const;
};

struct PhaseCost {
  std::string_view name;
  int32_t minTokens = 0, maxTokens = 0;
  bool withHead = false; ///< Its steps compute their logits.
  TypicalStep step = {};
  std::vector<OpCost> ops;
  double flops = 0, weightBytes = 0, seconds = 0; ///< Sums over the ops.
  /// Seconds by device, in the order of each device's first op.
  std::vector<std::pair<std::string_view, double>> deviceSeconds;
};

/// Describes the typical step: "512 tokens after 1024 in the cache".
std::string stepText(const PhaseCost &phase);

/// The memory that a device uses, in bytes.
struct DeviceMemory {
  const moert::fb::Device *device = nullptr;
  uint64_t scratch = 0; ///< For all workers (one per core), or on the GPU.
  /// Weights, cache, activations and scratch: what its budget has to hold. To
  /// those of a CPU belong those of GPUs that share its memory.
  uint64_t used = 0;
  /// Those GPUs' part of `used`.
  uint64_t usedByGpus = 0;

  /// Returns the used fraction of the budget; none if the plan records no
  /// budget.
  std::optional<double> usedFraction() const;
  /// Returns "fits", "tight" (above 95 % of the budget), "over" or "unknown".
  std::string_view state() const;
};

struct ExplainSummary {
  explicit ExplainSummary(const moert::fb::Plan &plan);

  std::vector<DeviceMemory> devices;
  /// The notes in the plan, and a note about GPUs that it needs.
  std::vector<std::string_view> notes;
  double kvBytesPerToken = 0;
  double kvBytes = 0; ///< For as many tokens as kvRoom says.
  /// Tables that stay in the model file and are read by rows.
  double tableBytes = 0;
  double stateBytes = 0; ///< For layers with a recurrent state per sequence.
  /// Layers that only keep a sequence's last rows: their bytes and number, and
  /// the most rows of one of them.
  double windowBytes = 0;
  uint64_t windowLayers = 0;
  int64_t windowRows = 0;
  /// Null if the plan has no such phase.
  std::string kvRoom;
  std::vector<PhaseCost> phases;

  /// Null where the plan has no such phase.
  const PhaseCost *phase(std::string_view name) const;
  const PhaseCost *phase(moert::PhaseKind kind) const {
    return phase(moert::nameOf(kind));
  }
  /// Returns the phase with the longest prefill steps, those of --ubatch
  /// tokens: a separate phase if experts are streamed to a GPU. Null if there
  /// is none.
  const PhaseCost *prefill() const;
  /// Returns the prompt tokens per second in such steps. None without a prefill
  /// phase or a time.
  std::optional<double> prefillRate() const;
  /// Returns the seconds from one generated token to the next, and the tokens
  /// per second: the time of a step plus that of each token's logits. None
  /// without a decode phase or a time.
  std::optional<double> decodeSecondsPerToken() const;
  std::optional<double> decodeRate() const;
  /// Returns the tokens per second that all sequences of a batch generate
  /// together, including logits. None without a batch phase or a time.
  std::optional<double> batchRate() const;

private:
  void addMemory(const moert::fb::Plan &plan);
  void addCosts(const moert::fb::Plan &plan);
  static std::vector<double> heldBytes(const moert::fb::Plan &plan);
  void addNotes(const moert::fb::Plan &plan);
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_SUMMARY_H
