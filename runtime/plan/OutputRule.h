//===- OutputRule.h - What an output may replace ----------------*- C++ -*-===//
//
// The one rule for all outputs of all commands. A file that exists is replaced
// if it is empty or of the kind that is written, unless
//   * the command reads it, under whatever name,
//   * a plan that the command reads or writes needs it, or
//   * it holds the weights of another plan, which could not run without them.
// --force allows files of other kinds, and none of these three.
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
  /// `forceWord` is what a user writes to get `force`; "" where there is
  /// nothing.
  explicit OutputRule(bool force = false, std::string forceWord = "--force")
      : force_(force), forceWord_(std::move(forceWord)) {}

  /// A file that the command reads; see InputSet.
  void addInput(std::string role, const std::string &path) {
    inputs_.add(std::move(role), path);
  }
  /// A plan and the files that any of its rungs needs.
  void addPlan(const Plan &plan);
  /// A file as the plan that will be at `planPath` names it.
  void addNeededFile(const std::string &role, const std::string &planPath,
                     const std::string &recorded);

  /// Fails with Usage where the rule forbids the output, and with Io where what
  /// is there cannot be looked at. `pairedPlan` is the plan that an output of
  /// kind Weights belongs to.
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
