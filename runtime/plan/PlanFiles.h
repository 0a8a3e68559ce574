//===- PlanFiles.h - Where the files of plans are ---------------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_PLANFILES_H
#define MOE_RUNTIME_PLAN_PLANFILES_H

#include "runtime/plan/Plan.h"
#include "runtime/schema/plan_generated.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The folder of `path`: "." where none is named.
std::filesystem::path folderOf(const std::string &path);

/// Whether both exist and are one file.
bool isSameFile(const std::filesystem::path &a, const std::filesystem::path &b);

/// The text at the beginning of a weights file; "" for any other file and where
/// there is none. Fails with Io where it cannot be read.
StatusOr<std::string> weightsHeader(const std::filesystem::path &path);

/// The packed file of a plan, one for all rungs of a ladder; null without one.
const fb::File *packedFileOf(const Plan &plan);

/// Where the path that a plan records may lead: from the plan's folder and,
/// where the plan is a symbolic link, from the folder of what it leads to.
std::vector<std::filesystem::path>
placesOf(const std::string &planPath, const std::filesystem::path &recorded);

/// The names that the weights file `path` may have while it is replaced
/// (runtime/schema/WeightsFile.h).
std::vector<std::filesystem::path>
stagedNames(const std::filesystem::path &path, std::string_view headerHash);

/// All paths at which a plan would find this file.
std::vector<std::filesystem::path> placesOf(const std::string &planPath,
                                            const fb::File &file);

/// The plan that a weights file at `weights` with this header was written with,
/// if there is a file of that name; "" if it is `plan` or there is none.
std::filesystem::path otherOwner(const std::string &header,
                                 const std::string &weights,
                                 const std::string &plan);

/// Whether the plan at `owner` needs `weights`. One that cannot be read may.
bool mayNeed(const std::filesystem::path &owner, const std::string &weights);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_PLANFILES_H
