//===- Diff.h - The report of moec diff -------------------------*- C++ -*-===//
//
// Compares the explanations of two plans: options, memory of each device,
// predicted speed, and the ops that have another device, weights, kernel or
// time. As in Explain.h, nothing is estimated here.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_EXPLAIN_DIFF_H
#define MOE_COMPILER_EXPLAIN_DIFF_H

#include "compiler/Explain/Collapse.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moec {

/// A value in the first and in the second plan.
template <class T> struct Both {
  T a = T(), b = T();
  bool differ() const { return a != b; }
};

/// The cost of a part of a layer in a phase. Ops of the part on several
/// devices, and their copies, are added up, with devices such as "cpu0+gpu0".
struct PartCost {
  std::string device, kernel; ///< "" if the plan has no such op.
  double weightBytes = 0, seconds = 0;
};

/// Layers whose part changes in the same way, with summed costs.
struct DiffRow {
  OpNames names;
  Both<PartCost> cost;

  double secondsMore() const { return cost.b.seconds - cost.a.seconds; }
};

struct PhaseDiff {
  std::string name;
  Both<std::string> step; ///< The typical step; "" without the phase.
  Both<double> seconds;   ///< Seconds of that step.
  size_t parts = 0;       ///< Parts in either plan.
  size_t changed = 0;     ///< Parts that are in `rows`.
  /// Parts whose device, kernel or weights differ, or whose seconds differ by
  /// more than 1 %. Rows that change the step most come first.
  std::vector<DiffRow> rows;
};

struct DeviceDiff {
  std::string name;
  Both<std::optional<DeviceMemory>> memory; ///< None without the device.
};

/// The differences of two plans. Contains views into both.
struct PlanDiff {
  PlanDiff(const moert::fb::Plan &a, const moert::fb::Plan &b);

  Both<ExplainSummary> summary;
  /// Names and values of properties that differ: model, target, context and so
  /// on.
  std::vector<std::pair<std::string, Both<std::string>>> facts;
  std::vector<DeviceDiff> devices; ///< All devices of both plans.
  std::vector<PhaseDiff> phases;   ///< All phases of both plans.

  /// Returns whether the plans only differ in their time of writing and the
  /// places of files.
  bool alike() const;
};

/// Returns a report of at most 120 columns. Names from the plans are escaped.
std::string diffText(const PlanDiff &diff);
/// Returns the same with all figures as one JSON object; values of both plans
/// are arrays of two.
std::string diffJson(const PlanDiff &diff);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_DIFF_H
