#include "compiler/Serialize/PlanPair.h"

#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanFiles.h"
#include "runtime/schema/WeightsFile.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <thread>
#include <unistd.h>
#include <vector>

using moert::folderOf;
using moert::isSameFile;
using moert::OutputPlace;
using moert::OutputTarget;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace stdfs = std::filesystem;

namespace moec {

namespace {

Status ioError(const std::string &path, const char *what, int error) {
  return Status(StatusCode::Io,
                path + ": " + what + ": " + std::strerror(error));
}

/// Returns the absolute path without links, so that two names of one file are
/// equal.
stdfs::path resolved(const stdfs::path &path) {
  std::error_code error;
  return stdfs::weakly_canonical(stdfs::absolute(path, error), error);
}

Status renameFile(const std::string &from, const std::string &to) {
  return ::rename(from.c_str(), to.c_str()) == 0
             ? Status::ok()
             : ioError(to, "cannot write", errno);
}

//===----------------------------------------------------------------------===//
// The lock
//===----------------------------------------------------------------------===//

/// Locks the folders of both files while a pair's names change.
class PairLock {
public:
  static StatusOr<PairLock> take(const PairPaths &paths) {
    PairLock lock;
    std::vector<std::string> folders;
    for (const std::string &path : {paths.plan, paths.weights})
      if (!path.empty())
        folders.push_back(folderOf(path));
    // All processes lock in the same order, which excludes deadlocks.
    for (std::string &folder : folders) {
      std::error_code error;
      if (stdfs::path real = stdfs::canonical(folder, error); !error)
        folder = real;
    }
    std::ranges::sort(folders);
    folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
    for (const std::string &folder : folders)
      MOE_RETURN_IF_ERROR(lock.add(folder));
    return lock;
  }

  PairLock(PairLock &&other) noexcept { std::swap(fds_, other.fds_); }
  ~PairLock() {
    for (int fd : fds_)
      ::close(fd);
  }

private:
  PairLock() = default;

  /// Some network file systems have folders that cannot be read or locked; they
  /// are used without a lock.
  Status add(const std::string &folder) {
    using namespace std::chrono_literals;
    int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
      return Status::ok();
    fds_.push_back(fd);
    auto start = std::chrono::steady_clock::now();
    while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR)
        return Status::ok();
      if (std::chrono::steady_clock::now() - start > 60s)
        return Status(StatusCode::Io,
                      folder + ": another process has kept this folder locked "
                               "for a minute; end it and compile again");
      std::this_thread::sleep_for(1ms);
    }
    return Status::ok();
  }

  std::vector<int> fds_;
};

//===----------------------------------------------------------------------===//
// Recovery from killed compilations
//===----------------------------------------------------------------------===//

/// Returns the path of a file that the plan of `paths` names.
stdfs::path placeIn(const PairPaths &paths, const moert::fb::File &file) {
  return folderOf(paths.plan) / std::string(moert::text(file.path()));
}

bool isStagedName(const std::string &name, const std::string &weights) {
  return name.size() == weights.size() + 1 + moert::kStagedDigits &&
         name.starts_with(weights + ".") &&
         name.find_first_not_of("0123456789abcdef", weights.size() + 1) ==
             name.npos;
}

StatusOr<OutputTarget> weightsTarget(const PairPaths &paths,
                                     const moert::OutputRule &rule) {
  return rule.target(paths.weights, moert::OutputKind::Weights, paths.plan);
}

/// Completes or removes what a killed compilation left. The caller holds the
/// lock, so no compilation is between its two renames.
Status finishInterrupted(const PairPaths &paths,
                         const moert::OutputRule &rule) {
  std::error_code error;
  std::string needed;
  if (stdfs::exists(paths.plan, error)) {
    auto plan = moert::Plan::load(paths.plan);
    // A plan of another version does not say which weights it needs.
    if (!plan)
      return Status::ok();
    const moert::fb::File *packed = moert::packedFileOf(*plan);
    if (packed && resolved(placeIn(paths, *packed)) == resolved(paths.weights))
      needed = moert::stagedWeights(paths.weights,
                                    moert::text(packed->header_hash()));
  }
  std::string name = stdfs::path(paths.weights).filename();
  std::vector<std::string> staged;
  for (stdfs::directory_iterator entry(folderOf(paths.weights), error), end;
       !error && entry != end; entry.increment(error))
    if (isStagedName(entry->path().filename(), name))
      if (auto header = moert::weightsHeader(entry->path());
          header && !header->empty() &&
          moert::ownerOtherThan(*header, paths.weights, paths.plan).empty())
        staged.push_back(entry->path());
  for (const std::string &path : staged)
    if (stdfs::path(path).filename() != stdfs::path(needed).filename())
      ::unlink(path.c_str());
    else if (weightsTarget(paths, rule).isOk())
      MOE_RETURN_IF_ERROR(renameFile(path, paths.weights));
  return Status::ok();
}

} // namespace

StatusOr<PairPaths> PairPaths::resolve(const std::string &plan,
                                       const std::string &weights) {
  PairPaths paths;
  MOE_ASSIGN_OR_RETURN(OutputPlace place, OutputPlace::find(plan));
  stdfs::path given = weights, planFolder, planName;
  if (!place.isStream()) {
    paths.plan = place.path;
    planFolder = place.folder();
    planName = place.name();
  } else if (weights.empty()) {
    return paths;
  }
  if (weights.empty()) {
    given = paths.plan;
    if (given.extension() == ".fb")
      given.replace_extension();
    given += ".weights";
  }
  MOE_ASSIGN_OR_RETURN(place, OutputPlace::find(given));
  if (place.isStream())
    return Status(StatusCode::Usage,
                  given.string() + ": weights are not written in order, so "
                                   "that they need a regular file");
  paths.weights = place.path;
  if (paths.weights == paths.plan || isSameFile(paths.weights, paths.plan))
    return Status(StatusCode::Usage,
                  paths.plan + ": the plan and its weights are two files; give "
                               "another name with --weights-file");
  std::error_code error;
  stdfs::path folder = stdfs::canonical(folderOf(given), error);
  if (error)
    return ioError(given, "cannot write", error.value());
  paths.recorded = folder / given.filename();
  if (paths.plan.empty())
    return paths;
  planFolder = stdfs::canonical(planFolder, error);
  if (error)
    return ioError(paths.plan, "cannot write", error.value());
  stdfs::path relative =
      stdfs::path(paths.recorded).lexically_relative(planFolder);
  if (!relative.empty() && *relative.begin() != "..")
    paths.recorded = relative;
  // The weights file has the path of the plan in its header, relative to the
  // folder that the weights file is in.
  bool together = isSameFile(folderOf(paths.weights), planFolder);
  paths.owner = together ? planName : planFolder / planName;
  return paths;
}

StatusOr<OutputTarget> preparePair(const PairPaths &paths,
                                   const moert::OutputRule &rule) {
  MOE_ASSIGN_OR_RETURN(PairLock lock, PairLock::take(paths));
  MOE_RETURN_IF_ERROR(finishInterrupted(paths, rule));
  return weightsTarget(paths, rule);
}

Status commitPair(const PairPaths &paths, const moert::OutputRule &rule,
                  moert::OutputFile plan, std::optional<NewWeights> weights) {
  if (paths.weights.empty())
    return plan.commit();
  // Flushing may take minutes, so it is done before taking the lock.
  if (weights)
    MOE_RETURN_IF_ERROR(weights->file.flush());
  MOE_ASSIGN_OR_RETURN(PairLock lock, PairLock::take(paths));
  MOE_RETURN_IF_ERROR(finishInterrupted(paths, rule));
  if (!weights)
    return plan.commit();
  MOE_RETURN_IF_ERROR(weights->file.recheck());
  const std::string &hash = weights->headerHash;
  std::string staged = moert::stagedWeights(paths.weights, hash);
  std::error_code error;
  if (stdfs::exists(staged, error)) {
    MOE_ASSIGN_OR_RETURN(std::string header, moert::weightsHeader(staged));
    if (header.empty())
      return Status(StatusCode::Usage,
                    staged + ": is in the way; move this file elsewhere");
  }
  Status status = weights->file.commitAs(staged);
  if (status.isOk())
    status = plan.commit();
  // Once the plan is renamed, the pair is the new one, even if a later step
  // fails.
  if (!plan.isCommitted()) {
    if (weights->file.isCommitted())
      ::unlink(staged.c_str());
    return status;
  }
  MOE_RETURN_IF_ERROR(renameFile(staged, paths.weights));
  MOE_RETURN_IF_ERROR(std::move(status));
  return moert::flushFolder(folderOf(paths.weights));
}

std::string weightsOfOldPlan(const PairPaths &paths) {
  auto plan = moert::Plan::load(paths.plan);
  const moert::fb::File *packed = plan ? moert::packedFileOf(*plan) : nullptr;
  if (!packed)
    return "";
  stdfs::path place = placeIn(paths, *packed);
  std::error_code error;
  return stdfs::exists(place, error) ? place.string() : "";
}

} // namespace moec
