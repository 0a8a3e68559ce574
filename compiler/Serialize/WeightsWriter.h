//===- WeightsWriter.h - Where a plan's weights are -------------*- C++ -*-===//

#ifndef MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H
#define MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H

#include "dialects/plan/Plan.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <string>

namespace moec {

/// Where the weights file of a plan lies: beside it, plan.fb's is plan.weights.
std::string weightsPath(const std::string &planPath);

struct PlaceWeightsOptions {
  std::string planPath; ///< Where the plan will be written.
  /// Copy every weight, so that the model file is not needed any more; else
  /// only weights that are computed or in another layout are written.
  bool all = false;
  /// Called with the bytes of the weights file written so far and in all;
  /// false gives up. May be empty.
  std::function<bool(uint64_t done, uint64_t total)> progress = {};
  int threads = 0; ///< 0 for one per core.
};

/// The last step before a plan is written; file paths of the program are those
/// by which the model was opened.
///
/// Writes the weights file beside the plan (plan.fb: plan.weights) if there is
/// something to write, as writePackedFile does, and lets the program refer to
/// it: plan.fold_query, plan.transpose and plan.pack become plan.weight,
/// entries that nothing uses any more go. Weights start at multiples of 64
/// bytes, large ones of pages. Paths of model files become relative to the
/// plan's folder if they are below it, else absolute.
///
/// Returns the size of the weights file, 0 without one. Fails with Io (disk
/// full, checked before the first byte; a model file that is gone or changed),
/// Cancelled, and as FoldQuery::check and
/// Transpose::check do; then no weights file was changed.
moert::StatusOr<uint64_t> placeWeights(mlir::plan::ProgramOp program,
                                       const PlaceWeightsOptions &options);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_WEIGHTSWRITER_H
