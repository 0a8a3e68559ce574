#include "runtime/base/PrivateMemory.h"

#include "runtime/base/Text.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace moert {

void *mapInHugePages(int fd, size_t bytes, int protection) {
  constexpr size_t kHuge = size_t(2) << 20;
  if (bytes > SIZE_MAX - 2 * kHuge) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void *space = ::mmap(nullptr, bytes + kHuge, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED)
    return MAP_FAILED;
  auto *begin = static_cast<uint8_t *>(space);
  size_t before = (kHuge - reinterpret_cast<uintptr_t>(space) % kHuge) % kHuge;
  int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void *data =
      ::mmap(begin + before, bytes, protection, flags | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    int error = errno;
    ::munmap(space, bytes + kHuge);
    errno = error;
    return MAP_FAILED;
  }
  size_t page = static_cast<size_t>(::sysconf(_SC_PAGE_SIZE));
  size_t used = before + (bytes + page - 1) / page * page;
  if (before > 0)
    ::munmap(space, before);
  ::munmap(begin + used, bytes + kHuge - used);
  // The advice is optional: not every system and file system follows it.
  (void)::madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

StatusOr<PrivateMemory> PrivateMemory::reserve(uint64_t bytes) {
  PrivateMemory memory;
  if (bytes == 0)
    return memory;
  void *data = mapInHugePages(-1, size_t(bytes), PROT_READ | PROT_WRITE);
  if (data == MAP_FAILED)
    return Status(StatusCode::DoesNotFit,
                  humanBytes(double(bytes)) +
                      " cannot be reserved: " + std::strerror(errno));
  memory.bytes_ = {static_cast<uint8_t *>(data), size_t(bytes)};
  return memory;
}

PrivateMemory::~PrivateMemory() {
  if (!bytes_.empty())
    ::munmap(bytes_.data(), bytes_.size());
}

void PrivateMemory::useSmallPages() {
  (void)::madvise(bytes_.data(), bytes_.size(), MADV_NOHUGEPAGE);
}

} // namespace moert
