//===- PlanPair.h - A plan and its weights, replaced as one -----*- C++ -*-===//
//
// At every moment, also after a process was killed, the plan on disk finds the
// weights that it was written with: runtime/schema/WeightsFile.h says how.
// Compilations that end at the same time take turns by a lock on the folder,
// which leaves no file behind; the last one wins.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_SERIALIZE_PLANPAIR_H
#define MOE_COMPILER_SERIALIZE_PLANPAIR_H

#include "runtime/base/OutputFile.h"
#include "runtime/plan/OutputRule.h"

#include <optional>
#include <string>

namespace moec {

/// Where a compilation writes.
struct PairPaths {
  /// The target, where the output is a symbolic link; "" for standard output
  /// and other streams.
  std::string plan;
  std::string weights; ///< The same; "" beside a stream, where nothing can be.
  /// The weights file as the plan names it: relative to the plan's folder where
  /// it is below it, else absolute.
  std::string recorded;
  /// Names the plan in the header of the weights file: plain if they lie in one
  /// folder, else absolute. "" for a stream.
  std::string owner;

  /// `weights` "" is for a file beside the plan: x.weights for x.fb, and for
  /// any other name that name with .weights behind it. Fails with Usage where
  /// both are one file or weights would go to a stream, with Io for a folder
  /// that is not there.
  static moert::StatusOr<PairPaths> resolve(const std::string &plan,
                                            const std::string &weights);
};

/// Before anything is written: completes what a killed compilation of the same
/// pair left undone and removes what it left behind. Gives where to write
/// `paths.weights`, if `rule` allows it.
moert::StatusOr<moert::OutputTarget> preparePair(const PairPaths &paths,
                                                 const moert::OutputRule &rule);

/// A weights file that is written but for its name.
struct NewWeights {
  moert::OutputFile file; ///< Created for what preparePair() gave.
  std::string headerHash;
};

/// Gives a plan, and its weights if it has some, their names. Fails with Io and
/// as preparePair does; then the pair is the old or the new one.
moert::Status commitPair(const PairPaths &paths, const moert::OutputRule &rule,
                         moert::OutputFile plan,
                         std::optional<NewWeights> weights);

/// The weights file of the plan at `paths.plan` as it is now; "" if it has none
/// that exists.
std::string weightsOfOldPlan(const PairPaths &paths);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_PLANPAIR_H
