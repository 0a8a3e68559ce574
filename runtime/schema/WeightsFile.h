//===- WeightsFile.h - The names of a plan's weights file -------*- C++ -*-===//
//
// A plan and its weights are two files, and no system replaces two at once. A
// compilation renames its weights file to a name beside the final one that
// holds its identity, then the plan onto its name, then the weights onto
// theirs. A plan's weights are so at all times in the file that it names or in
// the staged one; the second rename is what replaces the pair.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SCHEMA_WEIGHTSFILE_H
#define MOE_RUNTIME_SCHEMA_WEIGHTSFILE_H

#include <string>
#include <string_view>

namespace moert {

/// What every weights file begins with.
inline constexpr std::string_view kWeightsMagic = "moec weights ";

/// Digits of a header's hash in a staged file's name.
inline constexpr size_t kStagedDigits = 16;

/// The other name for the weights file `path` whose header has this hash.
inline std::string stagedWeights(const std::string &path,
                                 std::string_view headerHash) {
  return path + "." + std::string(headerHash.substr(0, kStagedDigits));
}

} // namespace moert

#endif // MOE_RUNTIME_SCHEMA_WEIGHTSFILE_H
