//===- WeightsFile.h - The names of a plan's weights file -------*- C++ -*-===//
//
// A plan and its weights are two files, and no system replaces two files at
// once. A compilation first renames its weights file to a staged name, which is
// next to the final one and contains a hash of its content. Then it renames the
// plan to its final name, and then the weights to theirs. So a plan always
// finds its weights, in the file that it names or in the staged one; the rename
// of the plan is what replaces the pair.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SCHEMA_WEIGHTSFILE_H
#define MOE_RUNTIME_SCHEMA_WEIGHTSFILE_H

#include <string>
#include <string_view>

namespace moert {

/// First bytes of every weights file.
inline constexpr std::string_view kWeightsMagic = "moec weights ";

/// Digits of the header's hash in the name of a staged file.
inline constexpr size_t kStagedDigits = 16;

/// Returns the staged name of the weights file `path` with this header hash.
inline std::string stagedWeights(const std::string &path,
                                 std::string_view headerHash) {
  return path + "." + std::string(headerHash.substr(0, kStagedDigits));
}

} // namespace moert

#endif // MOE_RUNTIME_SCHEMA_WEIGHTSFILE_H
