#include "runtime/WeightFiles.h"

#include "runtime/PlanAccess.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/Topology.h"

#include <filesystem>
#include <optional>

namespace moert {

namespace {
namespace stdfs = std::filesystem;

/// A packed file lies beside its plan, so that no plan reads elsewhere.
Status checkPackedName(std::string_view name) {
  if (name.find('/') != name.npos || name == "." || name == "..")
    return invalidPlan("weights file {} is not a plain file name",
                       quoted(name));
  return Status::ok();
}

Status checkModelPath(const stdfs::path &path) {
  if (path.is_absolute())
    return Status::ok();
  for (const stdfs::path &part : path)
    if (part == "..")
      return invalidPlan("model file {} is outside the plan's folder but not "
                         "absolute",
                         moert::quoted(path.string()));
  return Status::ok();
}

StatusOr<std::string> recordedPath(const Plan &plan, const fb::File &file) {
  std::string name(text(file.path()));
  stdfs::path folder = stdfs::path(plan.path()).parent_path();
  std::string path = (folder / name).string(); // `name` alone if absolute
  if (file.kind() == fb::FileKind::Packed) {
    MOE_RETURN_IF_ERROR(checkPackedName(name));
    std::error_code ignored;
    if (stdfs::is_symlink(path, ignored))
      return invalidPlan("weights file {} is a symbolic link; copy the file "
                         "itself beside the plan",
                         path);
    return path;
  }
  MOE_RETURN_IF_ERROR(checkModelPath(name));
  return path;
}

/// Takes the override meant for `file` from `paths`, if any.
std::optional<std::string> takeOverride(std::vector<std::string> &paths,
                                        const fb::File &file, bool onlyModel) {
  stdfs::path recorded = std::string(text(file.path()));
  for (auto it = paths.begin(); it != paths.end(); ++it)
    if (onlyModel || stdfs::path(*it).filename() == recorded.filename()) {
      std::string path = std::move(*it);
      paths.erase(it);
      return path;
    }
  return std::nullopt;
}

Status checkIdentity(const fb::File &file, const MappedFile &mapped,
                     const std::string &fix) {
  auto other = [&](std::string what) {
    return Status(StatusCode::WrongMachine,
                  fmt::format("{}: {}; give the file the plan was compiled "
                              "from{}",
                              mapped.path(), what, fix));
  };
  uint64_t actual = mapped.bytes().size();
  if (actual < file.bytes())
    return other(fmt::format("is {} shorter than the plan expects ({} of {} "
                             "bytes), perhaps an incomplete copy",
                             counted(file.bytes() - actual, "byte"), actual,
                             file.bytes()));
  if (actual > file.bytes())
    return other(fmt::format("is {} longer than the plan expects ({} instead "
                             "of {} bytes)",
                             counted(actual - file.bytes(), "byte"), actual,
                             file.bytes()));
  std::string hash = contentHash(mapped.bytes().first(file.header_bytes()));
  if (hash != text(file.header_hash()))
    return other(fmt::format("is another file of the same size (hash of its "
                             "first {} bytes is {}, expected {})",
                             file.header_bytes(), hash,
                             text(file.header_hash())));
  return Status::ok();
}
} // namespace

StatusOr<WeightFiles> WeightFiles::open(const Plan &plan,
                                        std::span<const std::string> paths) {
  const fb::Plan &table = plan.table();
  uint32_t models = 0;
  for (uint32_t i = 0; i < count(table.files()); ++i)
    models += table.files()->Get(i)->kind() == fb::FileKind::Model;
  if (paths.size() > models)
    return Status(StatusCode::Usage,
                  fmt::format("--model was given {}, but the plan has {}",
                              counted(paths.size(), "time"),
                              counted(models, "model file")));

  std::vector<std::string> overrides(paths.begin(), paths.end());
  WeightFiles files;
  for (uint32_t i = 0; i < count(table.files()); ++i) {
    const fb::File &file = *table.files()->Get(i);
    bool isModel = file.kind() == fb::FileKind::Model;
    std::optional<std::string> path;
    if (isModel)
      path = takeOverride(overrides, file, models == 1);
    if (!path) {
      StatusOr<std::string> recorded = recordedPath(plan, file);
      if (!recorded)
        return recorded.status().at(plan.path());
      path = *recorded;
    }
    std::string fix =
        (isModel ? " with --model PATH, or recompile: " : ", or recompile: ") +
        recompileCommand(table, plan.path(), "--target native");
    StatusOr<MappedFile> mapped = MappedFile::open(*path);
    if (!mapped)
      return Status(mapped.status().code(),
                    fmt::format("{}; {} needs it for its weights; give its "
                                "place{}",
                                mapped.status().message(), plan.path(), fix));
    MOE_RETURN_IF_ERROR(checkIdentity(file, *mapped, fix));
    files.files_.push_back(*std::move(mapped));
  }
  if (!overrides.empty())
    return Status(StatusCode::Usage,
                  fmt::format("--model {}: no model file of {} has this name",
                              overrides.front(), plan.path()));
  return files;
}

std::vector<std::string> WeightFiles::paths() const {
  std::vector<std::string> paths;
  for (const MappedFile &file : files_)
    paths.push_back(file.path());
  return paths;
}

MappedFile::PageUse WeightFiles::pageUse() const {
  MappedFile::PageUse sum;
  for (const MappedFile &file : files_) {
    MappedFile::PageUse use = file.pageUse();
    sum.resident += use.resident;
    sum.huge += use.huge;
  }
  return sum;
}

Status
WeightFiles::copyToMemory(std::span<const std::vector<NodeBytes>> parts) {
  for (size_t i = 0; i < files_.size(); ++i)
    MOE_RETURN_IF_ERROR(files_[i].copyToMemory(
        i < parts.size() ? parts[i] : std::vector<NodeBytes>(),
        preferMemoryNode));
  return Status::ok();
}

} // namespace moert
