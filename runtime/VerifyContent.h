//===- VerifyContent.h - Are a plan's weights undamaged? --------*- C++ -*-===//

#ifndef MOE_RUNTIME_VERIFYCONTENT_H
#define MOE_RUNTIME_VERIFYCONTENT_H

#include "runtime/WeightFiles.h"

#include <string>
#include <vector>

namespace moert {

struct DamagedWeight {
  std::string name; ///< As in the plan: not escaped.
  Extent extent;
};

/// What one file was found to be.
struct FileContent {
  std::string path;
  size_t weights = 0; ///< Compared byte by byte, with their checksums.
  uint64_t bytes = 0; ///< That these have in the file.
  size_t sampled = 0; ///< Further weights, of which there are samples alone.
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

} // namespace moert

#endif // MOE_RUNTIME_VERIFYCONTENT_H
