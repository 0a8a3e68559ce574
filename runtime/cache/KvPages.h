//===- KvPages.h - The bytes of KV cache pages ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CACHE_KVPAGES_H
#define MOE_RUNTIME_CACHE_KVPAGES_H

#include "runtime/device/Devices.h"

#include <cstddef>
#include <vector>

namespace moert {

/// Every layer's cache, by page (see KvPool). Fails where its device does.
class KvPages {
public:
  KvPages() = default;
  /// Of `plan`, whose devices are `devices`.
  KvPages(const fb::Plan &plan, const Devices &devices);

  /// Pages that every cache has.
  int32_t count() const { return count_; }
  /// Of a page, over all caches.
  size_t bytes() const { return bytes_; }

  Status copy(int32_t from, int32_t to) const;
  /// Its bytes(), cache after cache.
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
