#include "test/softgpu/HostView.h"

#include "test/softgpu/Warp.h"

#include <algorithm>
#include <cstring>

namespace softgpu {

static constexpr uint64_t kLargestCopy = uint64_t(1) << 20;

void HostView::begin(const DeviceMemory &memory, const Kernel &kernel) {
  bool mayWait = std::ranges::any_of(kernel.ops, [](const Op &op) {
    return op.isSystemScope && op.order != Order::Weak;
  });
  if (!mayWait)
    return;
  memory.forEachLive([&](const Allocation &allocation) {
    if (allocation.isHost && allocation.bytes <= kLargestCopy)
      copies_.push_back(
          {allocation.host,
           {allocation.host, allocation.host + allocation.bytes}});
  });
}

bool HostView::isBefore(const Store &store, const Warp &warp, uint32_t lanes) {
  if (store.block != warp.block->linear)
    return warp.launch->memory->races.isBefore(store.agent, warp.block->clock);
  if (store.warp != warp.index)
    return store.clock <= warp.clocks[size_t(store.warp)];
  return (lanes >> store.lane & 1) ||
         store.clock < warp.clocks[size_t(warp.index)];
}

void HostView::publish(std::vector<Store> &line, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Store &store = line[i];
    std::memcpy(store.host, store.value.data(), store.bytes);
    for (Copy &copy : copies_)
      if (uint64_t offset = uint64_t(store.host - copy.host);
          offset < copy.bytes.size())
        std::memcpy(copy.bytes.data() + offset, store.value.data(),
                    store.bytes);
  }
  line.erase(line.begin(), line.begin() + ptrdiff_t(count));
}

void HostView::store(const Warp &warp, int lane, uint8_t *host,
                     const void *value, uint32_t bytes, bool isStrong) {
  std::vector<Store> &line = lines_[lineOf(host)];
  Store &store = line.emplace_back(Store{host,
                                         bytes,
                                         uint32_t(warp.block->linear),
                                         warp.block->clock.agent,
                                         warp.clocks[size_t(warp.index)],
                                         warp.index,
                                         lane,
                                         {}});
  std::memcpy(store.value.data(), value, bytes);
  // A location's stores become visible in their order.
  if (isStrong)
    publish(line, line.size());
  if (line.empty())
    lines_.erase(lineOf(host));
}

void HostView::publishAt(const uint8_t *host) {
  auto line = lines_.find(lineOf(host));
  if (line == lines_.end())
    return;
  publish(line->second, line->second.size());
  lines_.erase(line);
}

void HostView::load(const Warp &warp, const uint8_t *host, uint8_t *value,
                    uint32_t bytes, bool isStrong) const {
  const Block &block = *warp.block;
  bool hasAcquired = isStrong || !block.clock.known.newest.empty();
  for (size_t i = 0; i < block.acquired.size() && !hasAcquired; ++i)
    hasAcquired = block.acquired[i] && block.acquired[i] <= warp.clocks[i];
  if (!hasAcquired)
    for (const Copy &copy : copies_)
      if (uint64_t offset = uint64_t(host - copy.host);
          offset < copy.bytes.size())
        std::memcpy(value, copy.bytes.data() + offset, bytes);
  auto line = lines_.find(lineOf(host));
  if (line == lines_.end())
    return;
  for (const Store &store : line->second) {
    const uint8_t *begin = std::max<const uint8_t *>(host, store.host);
    const uint8_t *end =
        std::min<const uint8_t *>(host + bytes, store.host + store.bytes);
    if (begin < end)
      std::memcpy(value + (begin - host),
                  store.value.data() + (begin - store.host),
                  size_t(end - begin));
  }
}

void HostView::release(const Warp &warp, uint32_t lanes) {
  for (auto it = lines_.begin(); it != lines_.end();) {
    std::vector<Store> &line = it->second;
    size_t count = line.size();
    while (count > 0 && !isBefore(line[count - 1], warp, lanes))
      --count;
    publish(line, count);
    it = line.empty() ? lines_.erase(it) : std::next(it);
  }
}

void HostView::acquire(Warp &warp) {
  uint32_t &first = warp.block->acquired[size_t(warp.index)];
  if (!first)
    first = warp.clocks[size_t(warp.index)];
}

void HostView::end() {
  for (auto &[number, line] : lines_)
    publish(line, line.size());
  lines_.clear();
}

} // namespace softgpu
