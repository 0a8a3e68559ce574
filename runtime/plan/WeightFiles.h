//===- WeightFiles.h - The files behind a plan's weights --------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_WEIGHTFILES_H
#define MOE_RUNTIME_PLAN_WEIGHTFILES_H

#include "runtime/base/ContentHash.h"
#include "runtime/base/MappedFile.h"
#include "runtime/plan/Plan.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace moert {

namespace fb {
struct Weight;
} // namespace fb

/// Where files are now, if not where the plan says.
struct WeightPaths {
  /// One path for a plan with one model file, else matched by file name.
  std::vector<std::string> models = {};
  std::string packed = {}; ///< The weights file; "" for the plan's.
};

/// What tells that a file is the one that the plan was compiled with or to.
enum class FileCheck {
  Header, ///< Its size, and a hash of its header.
  Sample, ///< Also a hash of blocks of its weights; some 50 ms at most.
};

/// Opens the files of a plan, in the order of its table. Relative paths are
/// looked for beside the plan and, where it is a symbolic link, beside its
/// target; a weights file also under the name that it has while a compilation
/// replaces it (runtime/schema/WeightsFile.h).
///
/// Fails with Io (missing), InvalidFile (an unsafe path in the plan),
/// WrongMachine (another file, longer, shorter or changed) or Usage (a path
/// that replaces nothing).
StatusOr<std::vector<InputFile>>
findWeightFiles(const Plan &plan, const WeightPaths &paths, FileCheck check);

/// The bytes of the file that a weight of a verified plan has, from its offset
/// to the end of its last row or panel.
Extent extentOf(const fb::Weight &weight);

/// Of all weights in file `file`, in the plan's order.
std::vector<Extent> extentsIn(const fb::Plan &plan, uint32_t file);

/// Owns the mappings of a plan's weight files.
class WeightFiles {
public:
  /// Fails as findWeightFiles, and with Io where a file cannot be mapped.
  static StatusOr<WeightFiles> open(const Plan &plan, const WeightPaths &paths);

  /// Copies every file into private memory: MappedFile::copyToMemory. `parts`
  /// is by file (nodeParts()), or empty.
  Status copyToMemory(std::span<const std::vector<NodeBytes>> parts = {});

  /// Of all files: MappedFile::pageUse.
  MappedFile::PageUse pageUse() const;

  std::vector<std::string> paths() const;
  std::span<const uint8_t> bytes(uint32_t file) const {
    return files_[file].bytes();
  }

private:
  std::vector<MappedFile> files_;
};

/// Loads the plan at `path` and lets `open` open its files. A compilation that
/// replaces both meanwhile is no failure: then they are opened anew, so that
/// the plan is always the one that the files are of. Fails as Plan::load and
/// `open`.
Status openWithPlan(const std::string &path,
                    const std::function<Status(Plan plan)> &open);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_WEIGHTFILES_H
