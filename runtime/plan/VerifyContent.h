//===- VerifyContent.h - Checks weights for damage --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_VERIFYCONTENT_H
#define MOE_RUNTIME_PLAN_VERIFYCONTENT_H

#include "runtime/plan/WeightFiles.h"

#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace moert {

struct DamagedWeight {
  std::string name; ///< Name as in the plan, not escaped.
  Extent extent;
};

/// Result of checking one file.
struct FileContent {
  std::string path;
  /// Whether it is a model file, not one that moec packed.
  bool isModel = false;
  /// Number of weights compared with checksums, byte by byte.
  size_t weights = 0;
  uint64_t bytes = 0; ///< Bytes of the weights that were checked.
  /// Number of other weights, of which only samples are checked.
  size_t sampled = 0;
  uint64_t unchecked = 0; ///< Bytes that only unchecked weights have.
  bool samplesDiffer = false;
  std::vector<DamagedWeight> damaged; ///< Sorted as in the plan.

  bool isIntact() const { return damaged.empty() && !samplesDiffer; }
};

/// Reads every byte that the plan uses of `files`, which findWeightFiles
/// returned, and compares it with the plan's checksums; of weights without a
/// checksum, only samples. Uses all cores. Fails with Io, also if a file
/// becomes shorter meanwhile, and with Cancelled. Damage is not an error but
/// part of the result.
StatusOr<std::vector<FileContent>>
verifyContent(const Plan &plan, std::span<const InputFile> files,
              const PiecesOptions &options);

/// Path of the file, offset, bytes and checksum of each verified weight.
using VerifiedWeights =
    std::set<std::tuple<std::string, uint64_t, uint64_t, std::string>>;

/// Does the same, but skips weights in `verified` and adds those that it read,
/// for rungs that share weights.
StatusOr<std::vector<FileContent>>
verifyContent(const Plan &plan, std::span<const InputFile> files,
              const PiecesOptions &options, VerifiedWeights &verified);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_VERIFYCONTENT_H
