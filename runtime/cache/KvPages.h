//===- KvPages.h - The bytes of KV cache pages ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CACHE_KVPAGES_H
#define MOE_RUNTIME_CACHE_KVPAGES_H

#include "runtime/device/Devices.h"

#include <cstddef>
#include <vector>

namespace moert {

/// The KV cache of every layer, accessed by page (KvPool). Functions return the
/// errors of the cache's device.
class KvPages {
public:
  KvPages() = default;
  /// The caches of `plan`, which lie in the memory of `devices`.
  KvPages(const fb::Plan &plan, const Devices &devices);

  /// Number of pages in each layer's cache.
  int32_t count() const { return count_; }
  /// Bytes of a page over all layers.
  size_t bytes() const { return bytes_; }

  Status copy(int32_t from, int32_t to) const;
  /// Copies the bytes() of a page to `out`, one layer after another.
  Status read(int32_t page, std::byte *out) const;
  Status write(int32_t page, const std::byte *from) const;

private:
  struct Cache {
    Device *device;
    uint64_t offset, pageBytes;
    DeviceRegion page(int32_t index) const {
      return {DeviceRegion::Memory::Kv, offset + uint64_t(index) * pageBytes,
              pageBytes};
    }
  };
  std::vector<Cache> caches_;
  size_t bytes_ = 0;
  int32_t count_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CACHE_KVPAGES_H
