//===- Diff.h - What moec diff prints ---------------------------*- C++ -*-===//
//
// How two plans differ in what their explanations say: options, memory of each
// device, predicted speed, and the ops that are elsewhere, read other weights,
// run another kernel or take another time. As in Explain.h nothing is estimated
// here.
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

/// A value of the first plan and of the second.
template <class T> struct Both {
  T a = T(), b = T();
  bool differ() const { return a != b; }
};

/// What a part of a layer costs in a phase. An op of several devices, and the
/// copies of it, are one: "cpu0+gpu0".
struct PartCost {
  std::string device, kernel; ///< "" where a plan has no such op.
  double weightBytes = 0, seconds = 0;
};

/// Layers whose part changes alike; costs are their sums.
struct DiffRow {
  OpNames names;
  Both<PartCost> cost;

  double secondsMore() const { return cost.b.seconds - cost.a.seconds; }
};

struct PhaseDiff {
  std::string name;
  Both<std::string> step; ///< The typical one; "" without the phase.
  Both<double> seconds;   ///< Of it.
  size_t parts = 0;       ///< That either plan has.
  size_t changed = 0;     ///< Of them in `rows`.
  /// Those whose device, kernel or weights differ, or whose seconds by more
  /// than a hundredth of the part's; what changes the step most comes first.
  std::vector<DiffRow> rows;
};

struct DeviceDiff {
  std::string name;
  Both<std::optional<DeviceMemory>> memory; ///< None: no such device.
};

/// Views into both plans.
struct PlanDiff {
  PlanDiff(const moert::fb::Plan &a, const moert::fb::Plan &b);

  Both<ExplainSummary> summary;
  /// Those of model, target, context and so on that differ, by name.
  std::vector<std::pair<std::string, Both<std::string>>> facts;
  std::vector<DeviceDiff> devices; ///< All of both.
  std::vector<PhaseDiff> phases;   ///< All of both.

  /// Nothing but the time of writing and the places of files may differ.
  bool alike() const;
};

/// A report of at most 120 columns. Names from the plans are escaped.
std::string diffText(const PlanDiff &diff);
/// The same with all figures as one JSON object, each an array of two.
std::string diffJson(const PlanDiff &diff);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_DIFF_H
