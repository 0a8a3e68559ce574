//===- PrivateMemory.h - Memory of this process in huge pages ---*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_PRIVATEMEMORY_H
#define MOE_RUNTIME_BASE_PRIVATEMEMORY_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace moert {

/// Maps a file (shared) or, if `fd` is -1, private memory. The address is a
/// multiple of a huge page, as is the file's offset 0, so that large folios of
/// the page cache can be mapped whole. The advice makes the system read or
/// allocate missing pages as huge pages: decode from 2 MiB folios is about 8 %
/// faster than from small ones. Returns MAP_FAILED and sets errno like mmap.
void *mapInHugePages(int fd, size_t bytes, int protection);

/// Owns memory that is zero at first. Pages use memory only once they are
/// written, whatever the size.
class PrivateMemory {
public:
  PrivateMemory() = default;
  /// Fails with DoesNotFit if the system has no addresses for it.
  static StatusOr<PrivateMemory> reserve(uint64_t bytes);

  PrivateMemory(PrivateMemory &&other) noexcept
      : bytes_(std::exchange(other.bytes_, {})) {}
  PrivateMemory &operator=(PrivateMemory &&other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PrivateMemory();

  /// Uses small pages from now on, because parts of the memory go to different
  /// nodes.
  void useSmallPages();

  std::span<uint8_t> bytes() const { return bytes_; }

private:
  std::span<uint8_t> bytes_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_PRIVATEMEMORY_H
