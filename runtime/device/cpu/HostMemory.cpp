#include "runtime/device/cpu/HostMemory.h"

#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <utility>

namespace moert {

StatusOr<HostMemory> HostMemory::allocate(uint64_t bytes,
                                          std::string_view purpose) {
  HostMemory memory;
  if (bytes == 0)
    return memory;
  void *data = MAP_FAILED;
  // The kernel may overcommit; asking for more than there is must fail now
  // rather than when the pages are touched.
  uint64_t available = hostMemoryBytes(); // 0 where the system does not tell
  if (available == 0 || bytes <= available)
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return Status(StatusCode::DoesNotFit,
                  fmt::format("{} of memory for {} cannot be had (this "
                              "process may use {})",
                              humanBytes(double(bytes)), purpose,
                              humanBytes(double(available))));
  memory.data_ = static_cast<std::byte *>(data);
  memory.size_ = bytes;
  return memory;
}

HostMemory::HostMemory(HostMemory &&other) noexcept {
  *this = std::move(other);
}

HostMemory &HostMemory::operator=(HostMemory &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostMemory::~HostMemory() {
  if (data_)
    ::munmap(data_, size_);
}

} // namespace moert
