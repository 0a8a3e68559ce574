//===- WeightsWriter.h - Where a plan's weights are -------------*- C++ -*-===//

#ifndef MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H
#define MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H

#include "compiler/Serialize/PlanPair.h"
#include "dialects/plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

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
moert::Status checkWeightsPlace(mlir::ModuleOp module,
                                const PlaceWeightsOptions &options);

/// The last step before a plan is written. `module` is as plan-pack-weights
/// left it; file paths are those by which the model was opened.
///
/// Writes the weights file that plan.packing describes, but for its name, if
/// there is one. Records in the programs what identifies the content of files
/// and where they are: paths of model files become relative to the plan's
/// folder if they are below it, else absolute.
///
/// Fails with Io (disk full, checked before the first byte; a model file that
/// is gone or changed), Cancelled, and as preparePair, FoldQuery::check and
/// Transpose::check do; then no weights file was changed.
moert::StatusOr<PlacedWeights> placeWeights(mlir::ModuleOp module,
                                            const PlaceWeightsOptions &options);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H
