//===- PlanPair.h - A plan and its weights, replaced as one -----*- C++ -*-===//
//
// At every moment, even after a process was killed, the plan on disk finds the
// weights that it was written with; runtime/schema/WeightsFile.h explains how.
// Compilations that end at the same time are serialised by a lock on the
// folder, which leaves no file behind. The last one wins.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_SERIALIZE_PLANPAIR_H
#define MOE_COMPILER_SERIALIZE_PLANPAIR_H

#include "runtime/base/OutputFile.h"
#include "runtime/plan/OutputRule.h"

#include <optional>
#include <string>

namespace moec {

/// The files that a compilation writes.
struct PairPaths {
  /// Path of the plan; if that is a symbolic link, of the link's target. "" for
  /// standard output and other streams.
  std::string plan;
  /// Path of the weights; "" if the plan goes to a stream and no file was
  /// named.
  std::string weights;
  /// Path of the weights as the plan records it: relative to the plan's folder
  /// if it is below that, else absolute.
  std::string recorded;
  /// Name of the plan in the header of the weights file: a plain name if both
  /// are in one folder, else an absolute path. "" for a stream.
  std::string owner;

  /// Without a name in `weights`, the file is beside the plan: x.weights for
  /// x.fb, and for any other name that name with .weights appended. Fails with
  /// Usage if both are the same file or weights would go to a stream, and with
  /// Io for a folder that does not exist.
  static moert::StatusOr<PairPaths> resolve(const std::string &plan,
                                            const std::string &weights);
};

/// Must be called before anything is written. Completes or removes what a
/// killed compilation of the same pair left. Returns where to write
/// `paths.weights`, if `rule` allows it.
moert::StatusOr<moert::OutputTarget> preparePair(const PairPaths &paths,
                                                 const moert::OutputRule &rule);

/// A complete weights file under a temporary name.
struct NewWeights {
  /// The file that was created for the result of preparePair().
  moert::OutputFile file;
  std::string headerHash;
};

/// Renames a plan and its weights, if any, to their final names. Fails with Io
/// and as preparePair() does; the pair is then the old or the new one.
moert::Status commitPair(const PairPaths &paths, const moert::OutputRule &rule,
                         moert::OutputFile plan,
                         std::optional<NewWeights> weights);

/// Returns the weights file of the plan that is at `paths.plan` now, or "" if
/// it has none that exists.
std::string weightsOfOldPlan(const PairPaths &paths);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_PLANPAIR_H
