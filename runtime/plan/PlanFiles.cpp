#include "runtime/plan/PlanFiles.h"

#include "runtime/base/InputFile.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/WeightsFile.h"

#include <algorithm>

namespace moert {

namespace stdfs = std::filesystem;

stdfs::path folderOf(const std::string &path) {
  stdfs::path folder = stdfs::path(path).parent_path();
  return folder.empty() ? stdfs::path(".") : folder;
}

bool isSameFile(const stdfs::path &a, const stdfs::path &b) {
  std::error_code error;
  return stdfs::equivalent(a, b, error);
}

StatusOr<std::string> weightsHeader(const stdfs::path &path) {
  std::error_code error;
  if (!stdfs::is_regular_file(path, error))
    return std::string();
  MOE_ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  std::string text(std::min<uint64_t>(file.size(), 4096), '\0');
  MOE_RETURN_IF_ERROR(file.readAt(0, text.data(), text.size()));
  return text.starts_with(kWeightsMagic) ? text : std::string();
}

const fb::File *packedFileOf(const Plan &plan) {
  for (uint32_t rung = 0; rung <= plan.rungs(); ++rung) {
    const fb::Plan &table = plan.rung(rung);
    for (uint32_t i = 0; i < count(table.files()); ++i)
      if (table.files()->Get(i)->kind() == fb::FileKind::Packed)
        return table.files()->Get(i);
  }
  return nullptr;
}

std::vector<stdfs::path> placesOf(const std::string &planPath,
                                  const stdfs::path &recorded) {
  // The operator / ignores the folder if `recorded` is absolute.
  std::vector<stdfs::path> places = {folderOf(planPath) / recorded};
  std::error_code error;
  if (recorded.is_relative() && stdfs::is_symlink(planPath, error))
    if (stdfs::path target = stdfs::canonical(planPath, error); !error)
      places.push_back(target.parent_path() / recorded);
  return places;
}

std::vector<stdfs::path> stagedNames(const stdfs::path &path,
                                     std::string_view headerHash) {
  std::vector<stdfs::path> names = {stagedWeights(path, headerHash)};
  std::error_code error;
  if (stdfs::is_symlink(path, error))
    // The target of the link need not exist.
    if (stdfs::path target = stdfs::read_symlink(path, error); !error)
      names.push_back(stagedWeights(
          stdfs::weakly_canonical(path.parent_path() / target, error),
          headerHash));
  return names;
}

std::vector<stdfs::path> placesOf(const std::string &planPath,
                                  const fb::File &file) {
  std::vector<stdfs::path> places =
      placesOf(planPath, stdfs::path(std::string(text(file.path()))));
  if (file.kind() == fb::FileKind::Packed)
    for (size_t i = places.size(); i-- > 0;)
      for (stdfs::path &staged :
           stagedNames(places[i], text(file.header_hash())))
        places.push_back(std::move(staged));
  return places;
}

/// Returns the plan's name in the second line of a header; "" if it has none.
static std::string ownerIn(const std::string &header) {
  size_t second = header.find('\n') + 1;
  size_t end = header.find('\n', second);
  std::string_view line = std::string_view(header).substr(second, end - second);
  return end != header.npos && line.starts_with("plan ")
             ? std::string(line.substr(5))
             : "";
}

stdfs::path ownerOtherThan(const std::string &header,
                           const std::string &weights,
                           const std::string &plan) {
  std::string owner = ownerIn(header);
  stdfs::path other = folderOf(weights) / owner;
  std::error_code error;
  bool isOther =
      !owner.empty() && stdfs::exists(other, error) && !isSameFile(other, plan);
  return isOther ? other : stdfs::path();
}

bool mayNeed(const stdfs::path &owner, const std::string &weights) {
  auto plan = Plan::load(owner);
  if (!plan)
    return true;
  // A plan that was recompiled since may use other weights, or none.
  const fb::File *packed = packedFileOf(*plan);
  return packed && std::ranges::any_of(placesOf(owner, *packed),
                                       [&](const stdfs::path &place) {
                                         return isSameFile(place, weights);
                                       });
}

} // namespace moert
