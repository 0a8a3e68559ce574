//===- Why.h - Why ops are where they are -----------------------*- C++ -*-===//
//
// For ops that a user names: what they would cost on each other device with the
// copies that they would need, the bytes that they would need there and those
// that are free, and the reasons that the plan records. Ops of several layers
// with equal answers are one answer.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_EXPLAIN_WHY_H
#define MOE_COMPILER_EXPLAIN_WHY_H

#include "compiler/Explain/Collapse.h"
#include "compiler/Explain/Moves.h"
#include "runtime/base/Status.h"

namespace moec {

/// A step of one phase with the op on one device.
struct WhyStep {
  std::string_view phase;
  bool isHere = false;           ///< The plan has the op there.
  std::optional<double> seconds; ///< None if the device lacks a kernel for it.
  MoveCopies copies;             ///< None where the op is.
  std::string reason;            ///< Why it is not there.
};

struct WhyDevice {
  std::string_view name;
  /// Null if the plan does not use the device: it records nothing of it.
  const DeviceMemory *memory = nullptr;
  /// Bytes that are left of the budget; below 0 if it is exceeded. None if the
  /// plan records no budget.
  std::optional<double> freeBytes;
  std::vector<WhyStep> steps; ///< By phase of the answer.

  /// Whether the plan has the op there in all its phases.
  bool isHere() const;
};

/// The reason of an op's device in some of its phases.
struct WhyReason {
  std::vector<std::string_view> phases;
  std::string_view device;
  std::string text; ///< "" if the plan records none.

  /// Returns the user's rule that placed the op, as it was written, or
  /// "--n-gpu-layers"; "" if the search placed it.
  std::string rule() const;
};

struct WhyAnswer {
  OpNames names;
  std::vector<const PhaseCost *> phases = {}; ///< In which the op is.
  std::vector<WhyReason> reasons = {};
  std::vector<WhyDevice> devices = {};
  /// Of one of the ops: the weights, and the cache that counts to it.
  double bytes = 0;
  bool isCopy = false; ///< A copy between devices.
};

/// Returns the answers about the ops that `pattern` (OpPattern.h) names, in the
/// order of their first ops. With `full`, each op has its own. Texts about
/// several layers have "blk.N." for the op's own layer. The summary is of the
/// plan, and both have to live as long as the answers. Fails with Usage if no
/// op has such a name, and says which are similar; with Unsupported if the plan
/// explains no op.
moert::StatusOr<std::vector<WhyAnswer>> whyOf(const moert::fb::Plan &plan,
                                              const ExplainSummary &summary,
                                              std::string_view pattern,
                                              bool full);

/// Return the answers of whyOf() as text, or as one JSON object. Of a ladder
/// they are about the chosen rung.
moert::StatusOr<std::string> whyText(const moert::fb::Plan &plan,
                                     std::string_view pattern, bool full);
moert::StatusOr<std::string> whyJson(const moert::fb::Plan &plan,
                                     std::string_view pattern);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_WHY_H
