//===- WeightFiles.h - The files behind a plan's weights --------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_WEIGHTFILES_H
#define MOE_RUNTIME_PLAN_WEIGHTFILES_H

#include "runtime/base/ContentHash.h"
#include "runtime/base/MappedFile.h"
#include "runtime/plan/LoadedWeights.h"
#include "runtime/plan/Plan.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moert {

namespace fb {
struct Plan;
struct Weight;
} // namespace fb

/// Present places of files that are not where the plan says.
struct WeightPaths {
  /// One path for a plan with one model file; otherwise paths are matched by
  /// name.
  std::vector<std::string> models = {};
  std::string packed = {}; ///< The weights file; "" to use the plan's path.
};

/// How to recognise a file as the one that the plan was compiled with.
enum class FileCheck {
  Header, ///< Checks the file's size and a hash of its header.
  Sample, ///< Also checks a hash of samples of the weights, within about 50 ms.
};

/// Opens the files of a plan, in the order of its table, without a loaded one.
/// Relative paths are searched in the folder of the plan and, if the plan is a
/// symbolic link, in that of its target. A weights file is also searched under
/// the name that it has while a compilation replaces it
/// (runtime/schema/WeightsFile.h).
///
/// Fails with Io (missing), InvalidFile (an unsafe path in the plan),
/// WrongMachine (another file, longer, shorter or changed) or Usage (a path in
/// `paths` matches no file of the plan).
StatusOr<std::vector<InputFile>>
findWeightFiles(const Plan &plan, const WeightPaths &paths, FileCheck check);

/// Returns the bytes of the file that a weight of a verified plan occupies,
/// from its offset to the end of its last row or panel.
Extent extentOf(const fb::Weight &weight);

/// Returns the extents of all weights in file `file`, in the plan's order.
std::vector<Extent> extentsIn(const fb::Plan &plan, uint32_t file);

/// Owns the mappings of a plan's weight files.
class WeightFiles {
public:
  /// Fails as findWeightFiles, and with Io if a file cannot be mapped.
  static StatusOr<WeightFiles> open(const Plan &plan, const WeightPaths &paths);

  /// Copies what the host reads of every file into private memory
  /// (MappedFile::copyToMemory). `parts` has one list per file (nodeParts()),
  /// or is empty.
  Status copyToMemory(const Plan &plan,
                      std::span<const std::vector<NodeBytes>> parts = {},
                      const PiecesOptions &options = {});
  /// Makes what the host reads of a loaded file (LoadedWeights::fill());
  /// nothing if the plan has none. `parts` is as in copyToMemory().
  Status load(std::span<const std::vector<NodeBytes>> parts, bool forget,
              const PiecesOptions &options);

  /// Returns the result of LoadedWeights; ok if there are none.
  Status checkWhatWasRead() const {
    return loaded_ ? loaded_->checkWhatWasRead() : Status::ok();
  }

  /// Copies bytes begin ... begin + out.size() - 1 of a file that perhaps only
  /// a GPU reads.
  Status read(uint32_t file, uint64_t begin, std::span<uint8_t> out) const;

  /// Returns the sum of MappedFile::pageUse over all files.
  MappedFile::PageUse pageUse() const;

  std::vector<std::string> paths() const;
  /// Returns the bytes; those that the host does not read may be zeros in a
  /// copy or a loaded file.
  std::span<const uint8_t> bytes(uint32_t file) const {
    return isLoaded(file) ? loaded_->bytes() : files_[file].bytes();
  }
  /// Returns whether the bytes are in private memory.
  bool isCopy(uint32_t file) const {
    return isLoaded(file) || files_[file].isCopy();
  }

private:
  /// Tables of ResidencyMode::File stay in their files, and rows are read in
  /// any order.
  void adviseRows(const fb::Plan &plan);

  bool isLoaded(uint32_t file) const { return file == files_.size(); }

  std::vector<MappedFile> files_;
  std::optional<LoadedWeights> loaded_; ///< The file that was loaded last.
};

/// Loads the plan at `path` and calls `open` to open its files. If a
/// compilation replaces both meanwhile, they are opened again, so that plan and
/// files always belong together. Returns the errors of Plan::load and `open`.
Status openWithPlan(const std::string &path,
                    const std::function<Status(Plan plan)> &open);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_WEIGHTFILES_H
