//===- WeightFiles.h - The files behind a plan's weights --------*- C++ -*-===//

#ifndef MOE_RUNTIME_WEIGHTFILES_H
#define MOE_RUNTIME_WEIGHTFILES_H

#include "runtime/Plan.h"
#include "runtime/base/MappedFile.h"

#include <span>
#include <string>
#include <vector>

namespace moert {

/// Owns the mappings of a plan's weight files, each checked to be the very file
/// that the plan was compiled from: exact size, and hash of its header.
class WeightFiles {
public:
  /// `modelPaths` replace the recorded paths of model files, for a model that
  /// moved: one path for a plan with one model file, else matched by file name.
  /// Fails with Io (missing), InvalidFile (an unsafe path in the plan),
  /// WrongMachine (another file, longer or shorter) or Usage (a path that
  /// replaces nothing).
  static StatusOr<WeightFiles> open(const Plan &plan,
                                    std::span<const std::string> modelPaths);

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

} // namespace moert

#endif // MOE_RUNTIME_WEIGHTFILES_H
