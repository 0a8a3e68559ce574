#include "compiler/Serialize/PlanPair.h"

#include "runtime/Plan.h"
#include "runtime/PlanAccess.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/ShellCommand.h"
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

using moert::OutputPlace;
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

stdfs::path folderOf(const std::string &path) {
  stdfs::path folder = stdfs::path(path).parent_path();
  return folder.empty() ? stdfs::path(".") : folder;
}

/// In full and without links, so that names of one place are equal.
stdfs::path resolved(const stdfs::path &path) {
  std::error_code error;
  return stdfs::weakly_canonical(stdfs::absolute(path, error), error);
}

bool sameFile(const stdfs::path &a, const stdfs::path &b) {
  std::error_code error;
  return stdfs::equivalent(a, b, error);
}

Status renameFile(const std::string &from, const std::string &to) {
  return ::rename(from.c_str(), to.c_str()) == 0
             ? Status::ok()
             : ioError(to, "cannot write", errno);
}

//===----------------------------------------------------------------------===//
// The lock
//===----------------------------------------------------------------------===//

/// Held while a pair's names change: on the folders of both files.
class PairLock {
public:
  static StatusOr<PairLock> take(const PairPaths &paths) {
    PairLock lock;
    std::vector<std::string> folders;
    for (const std::string &path : {paths.plan, paths.weights})
      if (!path.empty())
        folders.push_back(folderOf(path));
    // One order for all processes, so that none waits for another in turn.
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

  /// A folder that cannot be read or locked, on some network file systems, is
  /// used without a lock.
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
// Whose weights file?
//===----------------------------------------------------------------------===//

/// The text at the beginning of a weights file; "" for any other file.
std::string headerOf(const stdfs::path &path) {
  std::error_code error;
  if (!stdfs::is_regular_file(path, error))
    return "";
  auto file = moert::InputFile::open(path);
  std::string text(file ? std::min<uint64_t>(file->size(), 4096) : 0, '\0');
  if (!file || !file->readAt(0, text.data(), text.size()).isOk() ||
      !text.starts_with(moert::kWeightsMagic))
    return "";
  return text;
}

/// The plan that a header says the weights are of; "" if it does not.
std::string ownerIn(const std::string &header) {
  size_t second = header.find('\n') + 1;
  size_t end = header.find('\n', second);
  std::string_view line = std::string_view(header).substr(second, end - second);
  return end != header.npos && line.starts_with("plan ")
             ? std::string(line.substr(5))
             : "";
}

/// The packed file of a plan, one for all rungs of a ladder; null without one.
const moert::fb::File *packedOf(const moert::Plan &plan) {
  for (uint32_t rung = 0; rung <= plan.rungs(); ++rung) {
    const moert::fb::Plan &table = plan.rung(rung);
    for (uint32_t i = 0; i < moert::count(table.files()); ++i)
      if (table.files()->Get(i)->kind() == moert::fb::FileKind::Packed)
        return table.files()->Get(i);
  }
  return nullptr;
}

stdfs::path placeOf(const moert::fb::File &file, const std::string &plan) {
  return folderOf(plan) / std::string(moert::text(file.path()));
}

/// The plan at another path that a header says the weights are of, if there is
/// one; else "".
stdfs::path otherOwner(const std::string &header, const PairPaths &paths) {
  std::string owner = ownerIn(header);
  stdfs::path other = folderOf(paths.weights) / owner;
  std::error_code error;
  bool isOther = !owner.empty() && stdfs::exists(other, error) &&
                 !sameFile(other, paths.plan);
  return isOther ? other : stdfs::path();
}

Status checkReplaceable(const PairPaths &paths) {
  std::error_code error;
  if (!stdfs::exists(paths.weights, error))
    return Status::ok();
  auto refuse = [&](const std::string &what) {
    return Status(StatusCode::Usage,
                  paths.weights + ": " + what +
                      "; write elsewhere with -o or --weights-file");
  };
  std::string header = headerOf(paths.weights);
  if (header.empty())
    return refuse("is no weights file of moec and would be replaced");
  stdfs::path other = otherOwner(header, paths);
  if (other.empty())
    return Status::ok();
  // A plan that was since compiled to use none, or others, has no use for it.
  auto plan = moert::Plan::load(other);
  if (plan) {
    const moert::fb::File *packed = packedOf(*plan);
    if (!packed || !sameFile(placeOf(*packed, other), paths.weights))
      return Status::ok();
  }
  return refuse("holds the weights of " + moert::shellPath(other.string()) +
                ", which could not run without them");
}

//===----------------------------------------------------------------------===//
// What killed compilations left
//===----------------------------------------------------------------------===//

bool isStagedName(const std::string &name, const std::string &weights) {
  return name.size() == weights.size() + 1 + moert::kStagedDigits &&
         name.starts_with(weights + ".") &&
         name.find_first_not_of("0123456789abcdef", weights.size() + 1) ==
             name.npos;
}

/// Under the lock, when nobody is between two renames.
Status finishInterrupted(const PairPaths &paths) {
  std::error_code error;
  std::string needed;
  if (stdfs::exists(paths.plan, error)) {
    auto plan = moert::Plan::load(paths.plan);
    // Which weights a plan of another version needs is not known.
    if (!plan)
      return Status::ok();
    const moert::fb::File *packed = packedOf(*plan);
    if (packed &&
        resolved(placeOf(*packed, paths.plan)) == resolved(paths.weights))
      needed = moert::stagedWeights(paths.weights,
                                    moert::text(packed->header_hash()));
  }
  std::string name = stdfs::path(paths.weights).filename();
  std::vector<std::string> staged;
  for (stdfs::directory_iterator entry(folderOf(paths.weights), error), end;
       !error && entry != end; entry.increment(error))
    if (isStagedName(entry->path().filename(), name))
      if (std::string header = headerOf(entry->path());
          !header.empty() && otherOwner(header, paths).empty())
        staged.push_back(entry->path());
  for (const std::string &path : staged)
    if (stdfs::path(path).filename() != stdfs::path(needed).filename())
      ::unlink(path.c_str());
    else if (checkReplaceable(paths).isOk())
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
  if (paths.weights == paths.plan || sameFile(paths.weights, paths.plan))
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
  // As seen from the weights file itself.
  bool together = sameFile(folderOf(paths.weights), planFolder);
  paths.owner = together ? planName : planFolder / planName;
  return paths;
}

Status preparePair(const PairPaths &paths) {
  MOE_ASSIGN_OR_RETURN(PairLock lock, PairLock::take(paths));
  MOE_RETURN_IF_ERROR(finishInterrupted(paths));
  return checkReplaceable(paths);
}

Status commitPair(const PairPaths &paths, moert::OutputFile plan,
                  std::optional<NewWeights> weights) {
  if (paths.weights.empty())
    return plan.commit();
  // Not under the lock: this may take minutes.
  if (weights)
    MOE_RETURN_IF_ERROR(weights->file.flush());
  MOE_ASSIGN_OR_RETURN(PairLock lock, PairLock::take(paths));
  MOE_RETURN_IF_ERROR(finishInterrupted(paths));
  if (!weights)
    return plan.commit();
  MOE_RETURN_IF_ERROR(checkReplaceable(paths));
  const std::string &hash = weights->headerHash;
  std::string staged = moert::stagedWeights(paths.weights, hash);
  std::error_code error;
  if (stdfs::exists(staged, error) && headerOf(staged).empty())
    return Status(StatusCode::Usage,
                  staged + ": is in the way; move this file elsewhere");
  Status status = weights->file.commitAs(staged);
  if (status.isOk())
    status = plan.commit();
  // From the plan's rename on the pair is the new one, whatever fails.
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
  const moert::fb::File *packed = plan ? packedOf(*plan) : nullptr;
  if (!packed)
    return "";
  stdfs::path place = placeOf(*packed, paths.plan);
  std::error_code error;
  return stdfs::exists(place, error) ? place.string() : "";
}

} // namespace moec
