//===- OutputRule.h - Which files an output may replace ---------*- C++ -*-===//
//
// The same rule holds for all outputs of all commands. An existing file is
// replaced if it is empty or of the kind that is being written, unless
//   * the command reads it, under any name,
//   * a plan that the command reads or writes needs it, or
//   * it holds the weights of another plan, which could not run without them.
// --force also allows files of other kinds, but overrides none of these three.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PLAN_OUTPUTRULE_H
#define MOE_RUNTIME_PLAN_OUTPUTRULE_H

#include "runtime/base/InputSet.h"
#include "runtime/base/OutputTarget.h"
#include "runtime/plan/OutputKind.h"
#include "runtime/plan/Plan.h"

namespace moert {

class OutputRule {
public:
  /// `forceWord` is the option that sets `force`, for messages; "" if there is
  /// none.
  explicit OutputRule(bool force = false, std::string forceWord = "--force")
      : force_(force), forceWord_(std::move(forceWord)) {}

  /// Adds a file that the command reads (InputSet).
  void addInput(std::string role, const std::string &path) {
    inputs_.add(std::move(role), path);
  }
  /// Adds a plan and the files that any of its rungs needs.
  void addPlan(const Plan &plan);
  /// Adds a file as recorded in the plan that will be at `planPath`.
  void addNeededFile(const std::string &role, const std::string &planPath,
                     const std::string &recorded);

  /// Fails with Usage if the rule forbids the output, and with Io if the
  /// existing file cannot be examined. `pairedPlan` is the plan that an output
  /// of kind Weights belongs to.
  StatusOr<OutputTarget> target(const std::string &path, OutputKind kind,
                                const std::string &pairedPlan = "") const;

private:
  Status mayReplace(const std::string &path, const OutputPlace &place,
                    OutputKind kind, const std::string &pairedPlan) const;

  InputSet inputs_;
  bool force_;
  std::string forceWord_;
};

} // namespace moert

#endif // MOE_RUNTIME_PLAN_OUTPUTRULE_H
