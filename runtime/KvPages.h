//===- KvPages.h - The bytes of KV cache pages ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_KVPAGES_H
#define MOE_RUNTIME_KVPAGES_H

#include "kernels/KvCache.h"
#include "runtime/PlanAccess.h"
#include "runtime/device/Device.h"

#include <cstddef>
#include <cstring>
#include <vector>

namespace moert {

/// Every layer's cache, by page (see KvPool).
class KvPages {
public:
  KvPages() = default;
  /// `memories` are those of the plan's devices.
  KvPages(const fb::Plan &plan, std::span<const DeviceMemory> memories) {
    count_ = int32_t(kvRows(plan) / moek::kKvPage);
    for (uint32_t i = 0; i < moert::count(plan.kv()); ++i) {
      const fb::Kv &kv = *plan.kv()->Get(i);
      int64_t row = moek::kvRowBytes(moek::KvType(kv.type()), kv.width());
      caches_.push_back({memories[kv.device()].kv + kv.offset(),
                         size_t(row * moek::kKvPage)});
      bytes_ += caches_.back().pageBytes;
    }
  }

  /// Pages that every cache has.
  int32_t count() const { return count_; }
  /// Of a page, over all caches.
  size_t bytes() const { return bytes_; }

  void copy(int32_t from, int32_t to) const {
    for (const Cache &cache : caches_)
      std::memcpy(cache.page(to), cache.page(from), cache.pageBytes);
  }
  /// Its bytes(), cache after cache.
  void read(int32_t page, std::byte *out) const {
    for (const Cache &cache : caches_) {
      std::memcpy(out, cache.page(page), cache.pageBytes);
      out += cache.pageBytes;
    }
  }
  void write(int32_t page, const std::byte *from) const {
    for (const Cache &cache : caches_) {
      std::memcpy(cache.page(page), from, cache.pageBytes);
      from += cache.pageBytes;
    }
  }

private:
  struct Cache {
    std::byte *data;
    size_t pageBytes;
    std::byte *page(int32_t index) const {
      return data + size_t(index) * pageBytes;
    }
  };
  std::vector<Cache> caches_;
  size_t bytes_ = 0;
  int32_t count_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_KVPAGES_H
