//===- HostMemory.h - Arenas in main memory ---------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_HOSTMEMORY_H
#define MOE_RUNTIME_DEVICE_HOSTMEMORY_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moert {

/// Owns zeroed memory, aligned to a cache line, in huge pages where the system
/// has them. Pages use physical memory only once they are touched, so the cache
/// of a long context costs memory only as it fills. A guard page after the end
/// turns an access beyond it into a fault.
class HostMemory {
public:
  static constexpr uint64_t kAlignment = 64;

  /// Fails with DoesNotFit, naming `purpose`, if the machine has too little
  /// memory.
  static StatusOr<HostMemory> allocate(uint64_t bytes,
                                       std::string_view purpose);
  HostMemory() = default;
  HostMemory(HostMemory &&other) noexcept;
  HostMemory &operator=(HostMemory &&other) noexcept;
  ~HostMemory();

  std::byte *data() const { return data_; }
  size_t size() const { return size_; }

private:
  void *base_ = nullptr; ///< Start of the mapping, which has `mapped_` bytes.
  size_t mapped_ = 0;
  std::byte *data_ = nullptr;
  size_t size_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_HOSTMEMORY_H
