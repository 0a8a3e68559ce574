//===- WeightsWriter.h - Where a plan's weights are -------------*- C++ -*-===//

#ifndef MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H
#define MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H

#include "compiler/Serialize/PlanPair.h"
#include "dialects/plan/Plan.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace moec {

/// A path as the plan at `planPath` records it: relative if the file is below
/// the plan's folder, else absolute, as for a plan that goes to a stream or to
/// "". Fails with Io.
moert::StatusOr<std::string> recordedPath(const std::string &file,
                                          const std::string &planPath);

struct PlaceWeightsOptions {
  PairPaths paths;
  const moert::OutputRule &rule; ///< What the weights file may replace.
  /// Copy every weight, so that the model file is not needed any more; else
  /// only weights that are computed or in another layout are written.
  bool all = false;
  /// Record checksums of the weights that stay in the model file, so that each
  /// of their bytes can be verified. Reads all of them; where this is not said,
  /// it is done if weights are packed, as that reads the model anyway, or if
  /// they are at most kCheapToHash bytes. Of packed ones they are always there.
  std::optional<bool> checksums = {};
  /// Called with what is being done, and the bytes of it done so far and in
  /// all; false gives up. May be empty.
  std::function<bool(const char *what, uint64_t done, uint64_t total)>
      progress = {};
  /// Adds to the failure that the disk is too small what to do instead.
  std::function<moert::Status(moert::Status)> withoutSpace = {};
  int threads = 0; ///< 0 for one per core.
};

/// A few seconds to read from a disk.
inline constexpr uint64_t kCheapToHash = uint64_t(8) << 30;

struct PlacedWeights {
  std::optional<NewWeights> file; ///< To be committed with the plan.
  uint64_t bytes = 0;             ///< Of it.
};

/// Whether placeWeights() can begin: fails as it does before its first byte.
moert::Status checkWeightsPlace(llvm::ArrayRef<mlir::plan::ProgramOp> programs,
                                const PlaceWeightsOptions &options);

/// The last step before a plan is written; file paths of the program are those
/// by which the model was opened.
///
/// Writes the weights file, but for its name, if there is something to write,
/// and lets the program refer to it: plan.fold_query, plan.transpose and
/// plan.pack become plan.weight, entries that nothing uses any more go. Weights
/// start at multiples of 64 bytes, large ones of pages. Paths of model files
/// become relative to the plan's folder if they are below it, else absolute,
/// and what identifies their content is recorded. Several programs, rungs of a
/// ladder in one context, have one weights file, and in it once what more than
/// one of them reads.
///
/// Fails with Io (disk full, checked before the first byte; a model file that
/// is gone or changed), Cancelled, and as preparePair, FoldQuery::check and
/// Transpose::check do; then no weights file was changed.
moert::StatusOr<PlacedWeights>
placeWeights(llvm::ArrayRef<mlir::plan::ProgramOp> programs,
             const PlaceWeightsOptions &options);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H
