//===- VerifyContent.h - Are a plan's weights undamaged? --------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_VERIFYCONTENT_H
#define MOE_RUNTIME_PLAN_VERIFYCONTENT_H

#include "runtime/plan/WeightFiles.h"

#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace moert {

struct DamagedWeight {
  std::string name; ///< As in the plan: not escaped.
  Extent extent;
};

/// What one file was found to be.
struct FileContent {
  std::string path;
  bool isModel = false; ///< Else what moec packed.
  size_t weights = 0;   ///< Compared byte by byte, with their checksums.
  uint64_t bytes = 0;   ///< That these have in the file.
  size_t sampled = 0;   ///< Further weights, of which there are samples alone.
  uint64_t unchecked = 0; ///< Bytes of the file that only they have.
  bool samplesDiffer = false;
  std::vector<DamagedWeight> damaged; ///< In the plan's order.

  bool isIntact() const { return damaged.empty() && !samplesDiffer; }
};

/// Reads every byte that the plan uses of `files`, those of findWeightFiles,
/// and compares it with what the plan records; of weights without a checksum
/// the samples alone. Uses all cores. Fails with Io, also where a file becomes
/// shorter meanwhile, and Cancelled; damage is no failure.
StatusOr<std::vector<FileContent>>
verifyContent(const Plan &plan, std::span<const InputFile> files,
              const PiecesOptions &options);

/// Path of the file, offset, bytes and checksum of weights.
using VerifiedWeights =
    std::set<std::tuple<std::string, uint64_t, uint64_t, std::string>>;

/// The same without those that are `verified`, for rungs that share weights;
/// what was read is added to them.
StatusOr<std::vector<FileContent>>
verifyContent(const Plan &plan, std::span<const InputFile> files,
              const PiecesOptions &options, VerifiedWeights &verified);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_VERIFYCONTENT_H
