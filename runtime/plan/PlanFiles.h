//===- PlanFiles.h - Locations of the files of plans ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_PLANFILES_H
#define MOE_RUNTIME_PLAN_PLANFILES_H

#include "runtime/plan/Plan.h"
#include "runtime/schema/plan_generated.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Returns the folder of `path`; "." if it names none.
std::filesystem::path folderOf(const std::string &path);

/// Returns whether both exist and are the same file.
bool isSameFile(const std::filesystem::path &a, const std::filesystem::path &b);

/// Returns the text at the beginning of a weights file, or "" if `path` is
/// another file or does not exist. Fails with Io if it cannot be read.
StatusOr<std::string> weightsHeader(const std::filesystem::path &path);

/// Returns the packed file of a plan, which all rungs share, or null.
const fb::File *packedFileOf(const Plan &plan);

/// Returns where a path recorded in a plan may be: relative to the plan's
/// folder and, if the plan is a symbolic link, to the folder of its target.
std::vector<std::filesystem::path>
placesOf(const std::string &planPath, const std::filesystem::path &recorded);

/// Returns the names that the weights file `path` may have while it is being
/// replaced (runtime/schema/WeightsFile.h).
std::vector<std::filesystem::path>
stagedNames(const std::filesystem::path &path, std::string_view headerHash);

/// Returns all paths at which a plan would look for this file.
std::vector<std::filesystem::path> placesOf(const std::string &planPath,
                                            const fb::File &file);

/// Returns the plan that a weights file at `weights` with this header was
/// written with, if a file of that name exists; "" if there is none, or if it
/// is `plan`.
std::filesystem::path ownerOtherThan(const std::string &header,
                                     const std::string &weights,
                                     const std::string &plan);

/// Returns whether the plan at `owner` needs `weights`; true if it is
/// unreadable.
bool mayNeed(const std::filesystem::path &owner, const std::string &weights);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_PLANFILES_H
