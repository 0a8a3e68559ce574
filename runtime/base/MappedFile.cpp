#include "runtime/base/MappedFile.h"

#include "runtime/base/HostCpu.h"
#include "runtime/base/PrivateMemory.h"
#include "runtime/base/Temporaries.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace moert {

namespace {
/// Tells the system that single pages of this range are read, in any order.
void adviseRandom(uint8_t *begin, size_t bytes) {
  (void)::madvise(begin, bytes, MADV_NOHUGEPAGE);
  (void)::madvise(begin, bytes, MADV_RANDOM);
}
} // namespace

StatusOr<MappedFile> MappedFile::open(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  return map(std::move(file));
}

StatusOr<MappedFile> MappedFile::map(InputFile file) {
  MappedFile mapped(std::move(file));
  if (mapped.size() == 0)
    return mapped;
  void *data =
      mapInHugePages(mapped.file_.descriptor(), mapped.size(), PROT_READ);
  if (data == MAP_FAILED)
    return Status(errno == ENOMEM ? StatusCode::DoesNotFit : StatusCode::Io,
                  mapped.path() + ": cannot map: " + std::strerror(errno));
  mapped.data_ = static_cast<const uint8_t *>(data);
  return mapped;
}

void MappedFile::readByRows(uint64_t begin, uint64_t end) {
  const auto page = uint64_t(::sysconf(_SC_PAGE_SIZE));
  begin = (begin + page - 1) / page * page;
  end = std::min(end, uint64_t(size())) / page * page;
  if (begin >= end)
    return;
  rowPages_.emplace_back(begin, end);
  adviseRandom(const_cast<uint8_t *>(data_) + begin, end - begin);
}

MappedFile::PageUse MappedFile::pageUse() const {
  auto begin = reinterpret_cast<uintptr_t>(data_), end = begin + size();
  PageUse use;
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  for (bool ours = false; std::getline(smaps, line);) {
    uint64_t first = 0, last = 0, kib = 0;
    char name[32];
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &first, &last) ==
        2)
      ours = first < end && begin < last;
    else if (ours && std::sscanf(line.c_str(), "%31[^:]: %" SCNu64 " kB", name,
                                 &kib) == 2) {
      std::string_view key = name;
      if (key == "Rss")
        use.resident += kib << 10;
      else if (key == "AnonHugePages" || key == "FilePmdMapped")
        use.huge += kib << 10;
    }
  }
  return use;
}

Status MappedFile::copyToMemory() {
  const Extent all{0, size()};
  return copyToMemory({&all, 1});
}

/// Returns the parts of `extents` outside of `holes`, which are ascending and
/// disjoint pairs of begin and end.
static std::vector<Extent>
without(std::span<const Extent> extents,
        std::span<const std::pair<uint64_t, uint64_t>> holes) {
  std::vector<Extent> result;
  for (const Extent &extent : extents) {
    uint64_t at = extent.offset;
    for (auto [begin, end] : holes) {
      if (end <= at || begin >= extent.end())
        continue;
      if (begin > at)
        result.push_back({at, begin - at});
      at = end;
    }
    if (at < extent.end())
      result.push_back({at, extent.end() - at});
  }
  return result;
}

Status MappedFile::copyToMemory(std::span<const Extent> extents,
                                const NodePlaces &places,
                                const PiecesOptions &options) {
  constexpr uint64_t kPiece = uint64_t(4) << 20;
  if (size() == 0)
    return Status::ok();
  const std::vector<Extent> wanted = without(extents, rowPages_);
  uint64_t available = hostMemoryBytes(); // 0 where the system does not tell
  uint64_t copied = 0;
  for (const Extent &extent : wanted)
    copied += extent.bytes;
  void *copy = MAP_FAILED;
  if (available == 0 || copied <= available)
    copy = mapInHugePages(-1, size(), PROT_READ | PROT_WRITE);
  if (copy == MAP_FAILED)
    return Status(StatusCode::DoesNotFit,
                  path() + ": a copy does not fit into memory (" +
                      humanBytes(double(copied)) + " of " +
                      humanBytes(double(available)) + ")");
  auto *to = static_cast<uint8_t *>(copy);
  if (!places.parts.empty())
    (void)::madvise(copy, size(), MADV_NOHUGEPAGE);
  Status status = Status::ok();
  for (auto [begin, end] : rowPages_) {
    if (::mmap(to + begin, end - begin, PROT_READ, MAP_SHARED | MAP_FIXED,
               file_.descriptor(), off_t(begin)) == MAP_FAILED) {
      status = Status(StatusCode::Io,
                      path() + ": cannot map: " + std::strerror(errno));
      break;
    }
    adviseRandom(to + begin, end - begin);
  }
  if (status.isOk())
    status = fillPieces(wanted, places, kPiece, options, [&] {
      return [&](uint64_t begin, uint64_t end) {
        return file_.readAt(begin, to + begin, end - begin);
      };
    });
  if (!status.isOk()) {
    ::munmap(copy, size());
    return status;
  }
  (void)::mprotect(copy, size(), PROT_READ);
  ::munmap(const_cast<uint8_t *>(data_), size());
  data_ = static_cast<const uint8_t *>(copy);
  isCopy_ = true;
  return Status::ok();
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)),
      rowPages_(std::move(other.rowPages_)), isCopy_(other.isCopy_) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(rowPages_, other.rowPages_);
  std::swap(isCopy_, other.isCopy_);
  std::swap(file_, other.file_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_)
    ::munmap(const_cast<uint8_t *>(data_), size());
}

void installBusHandler() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    static constexpr char message[] =
        "error: a mapped model or weights file became shorter while it was in "
        "use, or its disk failed; restore the file and run again\n";
    removeTemporaries();
    (void)!::write(STDERR_FILENO, message, sizeof(message) - 1);
    ::_exit(exitCode(StatusCode::Io));
  };
  ::sigaction(SIGBUS, &action, nullptr);
}

} // namespace moert
