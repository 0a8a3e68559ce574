#include "runtime/device/HostMemory.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace moert {

StatusOr<HostMemory> HostMemory::allocate(uint64_t bytes,
                                          std::string_view purpose) {
  HostMemory memory;
  if (bytes == 0)
    return memory;
  uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
  Checked mapped = Checked(bytes).alignedTo(page) + Checked(page);
  void *base = MAP_FAILED;
  // The kernel may overcommit; asking for more than there is must fail now
  // rather than when the pages are touched.
  uint64_t available = hostMemoryBytes(); // 0 where the system does not tell
  if (mapped.valid() && (available == 0 || bytes <= available))
    base = ::mmap(nullptr, mapped.value(), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return Status(StatusCode::DoesNotFit,
                  fmt::format("{} of memory for {} cannot be had (this "
                              "process may use {})",
                              humanBytes(double(bytes)), purpose,
                              humanBytes(double(available))));
  memory.base_ = base;
  memory.mapped_ = mapped.value();
  // A wish. Attention reads the rows of one head after the other: from small
  // pages, a long cache is read up to a fifth slower.
  (void)::madvise(base, mapped.value(), MADV_HUGEPAGE);
  // The last page is a guard, and the memory ends where it begins.
  auto *guard = static_cast<std::byte *>(base) + mapped.value() - page;
  (void)::mprotect(guard, page, PROT_NONE);
  memory.data_ = guard - alignUp(bytes, kAlignment);
  memory.size_ = bytes;
  return memory;
}

HostMemory::HostMemory(HostMemory &&other) noexcept {
  *this = std::move(other);
}

HostMemory &HostMemory::operator=(HostMemory &&other) noexcept {
  std::swap(base_, other.base_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostMemory::~HostMemory() {
  if (base_)
    ::munmap(base_, mapped_);
}

} // namespace moert
