//===- HostMemory.h - Arenas in main memory ---------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_HOSTMEMORY_H
#define MOE_RUNTIME_DEVICE_HOSTMEMORY_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moert {

/// Owns zeroed memory, aligned to a cache line. Pages, huge ones where the
/// system has them, cost memory only once touched, so that a long context is
/// paid for as it fills. A guard page behind
/// it turns an access beyond the end into a fault instead of damage.
class HostMemory {
public:
  static constexpr uint64_t kAlignment = 64;

  /// DoesNotFit, naming `purpose`, when the machine does not have that much.
  static StatusOr<HostMemory> allocate(uint64_t bytes,
                                       std::string_view purpose);
  HostMemory() = default;
  HostMemory(HostMemory &&other) noexcept;
  HostMemory &operator=(HostMemory &&other) noexcept;
  ~HostMemory();

  std::byte *data() const { return data_; }
  size_t size() const { return size_; }

private:
  void *base_ = nullptr; ///< Of the mapping, `mapped_` bytes.
  size_t mapped_ = 0;
  std::byte *data_ = nullptr;
  size_t size_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_HOSTMEMORY_H
