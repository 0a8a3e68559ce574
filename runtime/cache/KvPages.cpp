#include "runtime/cache/KvPages.h"

#include "kernels/KvCache.h"
#include "runtime/plan/PlanAccess.h"

#include <cstring>

namespace moert {

KvPages::KvPages(const fb::Plan &plan, const Devices &devices)
    : count_(int32_t(kvRows(plan) / moek::kKvPage)) {
  for (uint32_t i = 0; i < moert::count(plan.kv()); ++i) {
    const fb::Kv &kv = *plan.kv()->Get(i);
    if (kv.row_per_sequence())
      continue;
    int64_t row = moek::kvRowBytes(moek::KvType(kv.type()), kv.width());
    caches_.push_back({&devices.device(kv.device()), kv.offset(),
                       uint64_t(row * moek::kKvPage)});
    bytes_ += caches_.back().pageBytes;
  }
}

Status KvPages::copy(int32_t from, int32_t to) const {
  for (const Cache &cache : caches_)
    MOE_RETURN_IF_ERROR(
        cache.device->copy(cache.page(from), cache.page(to).offset));
  return Status::ok();
}

Status KvPages::read(int32_t page, std::byte *out) const {
  for (const Cache &cache : caches_) {
    MOE_ASSIGN_OR_RETURN(std::span<const std::byte> bytes,
                         cache.device->read(cache.page(page)));
    std::memcpy(out, bytes.data(), bytes.size());
    out += bytes.size();
  }
  return Status::ok();
}

Status KvPages::write(int32_t page, const std::byte *from) const {
  for (const Cache &cache : caches_) {
    MOE_RETURN_IF_ERROR(
        cache.device->write(cache.page(page), {from, cache.pageBytes}));
    from += cache.pageBytes;
  }
  return Status::ok();
}

} // namespace moert
