//===- HostMemory.h - Arenas in main memory ---------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_HOSTMEMORY_H
#define MOE_RUNTIME_DEVICE_CPU_HOSTMEMORY_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moert {

/// Owns page-aligned, zeroed memory. Pages cost memory only once touched, so
/// that a long context is paid for as it fills.
class HostMemory {
public:
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
  std::byte *data_ = nullptr;
  size_t size_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_HOSTMEMORY_H
