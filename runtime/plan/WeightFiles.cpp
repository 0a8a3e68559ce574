#include "runtime/plan/WeightFiles.h"

#include "kernels/Layout.h"
#include "runtime/base/Topology.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanFiles.h"
#include "runtime/plan/PlanWeights.h"
#include "runtime/plan/Recompile.h"
#include "runtime/schema/WeightsFile.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

namespace moert {

namespace {
namespace stdfs = std::filesystem;

/// A relative path must stay below the plan's folder.
Status checkPath(const stdfs::path &path) {
  if (path.is_absolute())
    return Status::ok();
  for (const stdfs::path &part : path)
    if (part == "..")
      return invalidPlan("file {} is outside the plan's folder but not "
                         "absolute",
                         moert::quoted(path.string()));
  return Status::ok();
}

/// Takes the override meant for `file`, if any, out of `paths`.
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

Status checkIdentity(const fb::File &file, const InputFile &input,
                     std::span<const Extent> weights, FileCheck check) {
  auto other = [&](std::string what) {
    return Status(StatusCode::WrongMachine,
                  fmt::format("{}: {}", input.path(), what));
  };
  uint64_t actual = input.size();
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
  MOE_ASSIGN_OR_RETURN(std::string hash,
                       hashHeader(input, file.header_bytes()));
  if (hash != text(file.header_hash()))
    return other(fmt::format("is another file of the same size (hash of its "
                             "first {} bytes is {}, expected {})",
                             file.header_bytes(), hash,
                             text(file.header_hash())));
  if (check == FileCheck::Header || !file.sample_hash())
    return Status::ok();
  MOE_ASSIGN_OR_RETURN(hash, hashSamples(input, weights));
  if (hash != text(file.sample_hash()))
    return other("has the right header but other weights (hash of samples is " +
                 hash + ", expected " + std::string(text(file.sample_hash())) +
                 "): another model of the same shape, or a damaged file");
  return Status::ok();
}

/// Searches for one file of a plan.
class Finder {
public:
  Finder(const Plan &plan, uint32_t index, FileCheck check)
      : file_(*plan.table().files()->Get(index)),
        weights_(extentsIn(plan.table(), index)), check_(check) {}

  StatusOr<InputFile> find(const std::vector<stdfs::path> &places) {
    std::vector<stdfs::path> names = places;
    if (file_.kind() == fb::FileKind::Packed)
      for (const stdfs::path &place : places)
        for (stdfs::path &name : stagedNames(place, text(file_.header_hash())))
          names.push_back(std::move(name));
    // If a file is renamed between two look-ups, the second round finds it
    // under its final name.
    for (int round = 0; round < 2; ++round) {
      missing_ = other_ = Status::ok();
      for (const stdfs::path &name : names)
        if (std::optional<InputFile> file = tryOpen(name))
          return *std::move(file);
    }
    return other_.isOk() ? missing_ : other_;
  }

private:
  std::optional<InputFile> tryOpen(const stdfs::path &path) {
    StatusOr<InputFile> file = InputFile::open(path);
    Status status = file.status();
    if (status.isOk()) {
      status = checkIdentity(file_, *file, weights_, check_);
      if (status.isOk())
        return *std::move(file);
    }
    // An error about an existing file says more than a missing one.
    Status &kept = file ? other_ : missing_;
    if (kept.isOk())
      kept = std::move(status);
    return std::nullopt;
  }

  const fb::File &file_;
  std::vector<Extent> weights_;
  FileCheck check_;
  Status missing_, other_;
};

/// Returns whether the file at a model's place can be a complete model.
bool mayCompile(const stdfs::path &path, const fb::File &expected) {
  StatusOr<InputFile> input = InputFile::open(path);
  if (!input || input->size() < expected.bytes())
    return false;
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, sizeof(magic)) == "GGUF";
}

Status checkOverrides(uint32_t models, bool hasPacked,
                      const WeightPaths &paths) {
  if (paths.models.size() > models)
    return Status(StatusCode::Usage,
                  fmt::format("--model was given {}, but the plan has {}",
                              counted(paths.models.size(), "time"),
                              counted(models, "model file")));
  if (!paths.packed.empty() && !hasPacked)
    return Status(StatusCode::Usage,
                  fmt::format("--weights-file {}: the plan has no weights file",
                              paths.packed));
  return Status::ok();
}
} // namespace

StatusOr<std::vector<InputFile>>
findWeightFiles(const Plan &plan, const WeightPaths &paths, FileCheck check) {
  const fb::Plan &table = plan.table();
  uint32_t models = 0;
  bool hasPacked = false;
  for (uint32_t i = 0; i < count(table.files()); ++i) {
    models += table.files()->Get(i)->kind() == fb::FileKind::Model;
    hasPacked |= table.files()->Get(i)->kind() == fb::FileKind::Packed;
  }
  MOE_RETURN_IF_ERROR(checkOverrides(models, hasPacked, paths));
  std::vector<std::string> overrides = paths.models;
  std::vector<InputFile> files;
  for (uint32_t i = 0; i < count(table.files()); ++i) {
    const fb::File &file = *table.files()->Get(i);
    if (file.kind() == fb::FileKind::Loaded)
      continue;
    bool isModel = file.kind() == fb::FileKind::Model;
    std::string recorded(text(file.path()));
    MOE_RETURN_IF_ERROR(checkPath(recorded).at(plan.path()));
    std::vector<stdfs::path> places = placesOf(plan.path(), recorded);
    if (isModel) {
      if (auto path = takeOverride(overrides, file, models == 1))
        places = {*path};
    } else if (!paths.packed.empty()) {
      places = {paths.packed};
    }
    StatusOr<InputFile> found = Finder(plan, i, check).find(places);
    if (!found) {
      Status missing(
          found.status().code(),
          fmt::format("{}; {} needs it for its weights; give its place with {} "
                      "PATH",
                      found.status().message(), plan.path(),
                      isModel ? "--model" : "--weights-file"));
      // No plan can be compiled from an incomplete model.
      if (isModel && !mayCompile(places.front(), file))
        return missing;
      return std::move(missing).suggesting(recompile(Suggestion::MissingFile,
                                                     table, plan.path(), {},
                                                     paths.models),
                                           ", ");
    }
    files.push_back(*std::move(found));
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

Extent extentOf(const fb::Weight &weight) {
  int64_t rows =
      moek::storedRows(*moek::layoutFromNumber(weight.layout()), weight.rows());
  return {weight.offset(),
          uint64_t((weight.outer() - 1) * weight.outer_stride() +
                   (rows - 1) * weight.row_stride()) +
              rowBytesOf(weight)};
}

std::vector<Extent> extentsIn(const fb::Plan &plan, uint32_t file) {
  std::vector<Extent> extents;
  for (uint32_t i = 0; i < count(plan.weights()); ++i)
    if (const fb::Weight &weight = *plan.weights()->Get(i);
        weight.file() == file)
      extents.push_back(extentOf(weight));
  return extents;
}

StatusOr<WeightFiles> WeightFiles::open(const Plan &plan,
                                        const WeightPaths &paths) {
  MOE_ASSIGN_OR_RETURN(std::vector<InputFile> found,
                       findWeightFiles(plan, paths, FileCheck::Sample));
  WeightFiles files;
  for (InputFile &file : found) {
    MOE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::map(std::move(file)));
    files.files_.push_back(std::move(mapped));
  }
  files.adviseRows(plan.table());
  if (count(plan.table().files()) > files.files_.size()) {
    MOE_ASSIGN_OR_RETURN(files.loaded_,
                         LoadedWeights::open(plan, files.files_));
  }
  return files;
}

void WeightFiles::adviseRows(const fb::Plan &plan) {
  std::vector<std::pair<uint32_t, Extent>> tables;
  for (uint32_t i = 0; i < count(plan.residency()); ++i) {
    const fb::Residency &residency = *plan.residency()->Get(i);
    if (residency.mode() != fb::ResidencyMode::File)
      continue;
    const fb::Weight &weight = *plan.weights()->Get(residency.weight());
    tables.emplace_back(weight.file(), extentOf(weight));
  }
  std::ranges::sort(tables, {}, [](const auto &table) {
    return std::pair(table.first, table.second.offset);
  });
  uint32_t file = UINT32_MAX;
  // End of the tables that were seen in `file`; views may overlap.
  uint64_t end = 0;
  for (const auto &[of, extent] : tables) {
    uint64_t begin = of == file ? std::max(end, extent.offset) : extent.offset;
    file = of;
    end = std::max(begin, extent.offset + extent.bytes);
    files_[of].readByRows(begin, end);
  }
}

/// Returns whether the file at `path` still has this content.
static bool hasContent(const std::string &path, const std::string &hash) {
  StatusOr<InputFile> file = InputFile::open(path);
  if (!file)
    return true;
  StatusOr<std::string> now = hashHeader(*file, file->size());
  return !now || *now == hash;
}

Status openWithPlan(const std::string &path,
                    const std::function<Status(Plan plan)> &open) {
  using namespace std::chrono_literals;
  auto start = std::chrono::steady_clock::now();
  for (;;) {
    MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(path));
    std::string hash = contentHash(plan.bytes());
    Status status = open(std::move(plan));
    if (status.isOk() || hasContent(path, hash) ||
        std::chrono::steady_clock::now() - start > 10s)
      return status;
    std::this_thread::sleep_for(1ms);
  }
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

/// Returns the places of a file's bytes.
static NodePlaces placesIn(std::span<const std::vector<NodeBytes>> parts,
                           size_t file) {
  NodePlaces places;
  if (file < parts.size())
    places = {parts[file], preferMemoryNode};
  return places;
}

Status WeightFiles::copyToMemory(const Plan &plan,
                                 std::span<const std::vector<NodeBytes>> parts,
                                 const PiecesOptions &options) {
  const std::vector<bool> ofHost = hostWeights(plan);
  for (size_t i = 0; i < files_.size(); ++i) {
    std::vector<Extent> extents;
    for (uint32_t w = 0; w < ofHost.size(); ++w)
      if (const fb::Weight &weight = *plan.table().weights()->Get(w);
          ofHost[w] && weight.file() == i)
        extents.push_back(extentOf(weight));
    MOE_RETURN_IF_ERROR(files_[i].copyToMemory(united(std::move(extents)),
                                               placesIn(parts, i), options));
  }
  return Status::ok();
}

Status WeightFiles::load(std::span<const std::vector<NodeBytes>> parts,
                         bool forget, const PiecesOptions &options) {
  return loaded_
             ? loaded_->fill(placesIn(parts, files_.size()), forget, options)
             : Status::ok();
}

Status WeightFiles::read(uint32_t file, uint64_t begin,
                         std::span<uint8_t> out) const {
  if (isLoaded(file))
    return loaded_->make(begin, out);
  const MappedFile &mapped = files_[file];
  if (mapped.isCopy())
    return mapped.file().readAt(begin, out.data(), out.size());
  std::ranges::copy(mapped.bytes().subspan(begin, out.size()), out.begin());
  return Status::ok();
}

} // namespace moert
