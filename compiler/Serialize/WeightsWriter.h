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

/// Returns the path of `file` as the plan at `planPath` records it: relative if
/// the file is below the plan's folder, else absolute. For a plan that goes to
/// a stream or to "" it is absolute. Fails with Io.
moert::StatusOr<std::string> recordedPath(const std::string &file,
                                          const std::string &planPath);

struct PlaceWeightsOptions {
  PairPaths paths;
  const moert::OutputRule &rule; ///< What the weights file may replace.
  /// Whether to record checksums of the weights that stay in the model file, so
  /// that each of their bytes can be verified. This reads all of them. Without
  /// a value, they are recorded if weights are packed, which reads the model
  /// anyway, or if the weights take at most kCheapToHash bytes. Packed weights
  /// always have checksums.
  std::optional<bool> checksums = {};
  /// Whether packed weights are left out: the file then has its header, holes
  /// where their bytes belong, and neither checksums nor samples, so that it
  /// may be filled with any weights of these shapes.
  bool blank = false;
  /// Called with the name of the current task and its bytes, done and in all.
  /// A result of false cancels. May be empty.
  std::function<bool(const char *what, uint64_t done, uint64_t total)>
      progress = {};
  /// Adds advice to the failure that the disk has too little space.
  std::function<moert::Status(moert::Status)> withoutSpace = {};
  int threads = 0; ///< 0 stands for one per core.
};

/// Reading this much takes a few seconds.
inline constexpr uint64_t kCheapToHash = uint64_t(8) << 30;

struct PlacedWeights {
  std::optional<NewWeights> file; ///< To be committed together with the plan.
  uint64_t bytes = 0;             ///< Size of the file.
};

/// Checks whether placeWeights() can begin. Fails as it does before it writes
/// the first byte.
moert::Status checkWeightsPlace(mlir::ModuleOp module,
                                const PlaceWeightsOptions &options);

/// Does the last step before a plan is written. `module` is the result of
/// plan-pack-weights; its file paths are those by which the model was opened.
///
/// If the module has a plan.packing, the weights file that it describes is
/// written under a temporary name. The programs then record the hashes and
/// paths of their files: the path of a model file becomes relative to the
/// plan's folder if it is below it, else absolute.
///
/// Fails with Io (too little space on the disk, which is checked before the
/// first byte; a model file that is gone or changed), with Cancelled, and as
/// preparePair() and WeightRows::of() do. No weights file has changed then.
moert::StatusOr<PlacedWeights> placeWeights(mlir::ModuleOp module,
                                            const PlaceWeightsOptions &options);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H
