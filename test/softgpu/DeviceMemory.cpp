//===- DeviceMemory.cpp ---------------------------------------------------===//

#include "test/softgpu/DeviceMemory.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace softgpu {

LazyPages::LazyPages(uint64_t bytes) : bytes_(std::max<uint64_t>(bytes, 1)) {
  data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data_ == MAP_FAILED)
    throw std::bad_alloc();
}
LazyPages::~LazyPages() {
  if (data_)
    munmap(data_, bytes_);
}
LazyPages::LazyPages(LazyPages &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
LazyPages &LazyPages::operator=(LazyPages &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
void LazyPages::clear() { madvise(data_, bytes_, MADV_DONTNEED); }

static uint64_t bitsOf(uint64_t count) {
  return count >= 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
}

bool Allocation::isWritten(uint64_t offset, uint64_t count) const {
  if (!valid)
    return true;
  while (count) {
    uint64_t bit = offset & 63;
    uint64_t now = std::min<uint64_t>(count, 64 - bit);
    uint64_t want = bitsOf(now) << bit;
    if ((valid[offset >> 6] & want) != want)
      return false;
    offset += now;
    count -= now;
  }
  return true;
}

void Allocation::markWritten(uint64_t offset, uint64_t count) {
  if (!valid)
    return;
  while (count) {
    uint64_t bit = offset & 63;
    uint64_t now = std::min<uint64_t>(count, 64 - bit);
    valid[offset >> 6] |= bitsOf(now) << bit;
    offset += now;
    count -= now;
  }
}

uint64_t DeviceMemory::allocate(uint64_t bytes, std::string name) {
  auto allocation = std::make_unique<Allocation>();
  allocation->name = std::move(name);
  allocation->bytes = bytes;
  allocation->pages = LazyPages(bytes);
  allocation->validPages = LazyPages(bytes / 8 + 16);
  allocation->host = static_cast<uint8_t *>(allocation->pages.data());
  allocation->valid = static_cast<uint64_t *>(allocation->validPages.data());
  liveBytes_ += bytes;
  return place(std::move(allocation));
}

uint64_t DeviceMemory::map(void *host, uint64_t bytes, std::string name) {
  auto allocation = std::make_unique<Allocation>();
  allocation->name = std::move(name);
  allocation->bytes = bytes;
  allocation->host = static_cast<uint8_t *>(host);
  allocation->isHost = true;
  return place(std::move(allocation));
}

uint64_t DeviceMemory::place(std::unique_ptr<Allocation> allocation) {
  uint64_t base = allocation->base = next_;
  uint64_t granules = allocation->bytes / 4 + 8;
  allocation->racePages = LazyPages(granules * 8);
  allocation->writers = static_cast<uint32_t *>(allocation->racePages.data());
  allocation->readers = allocation->writers + granules;
  next_ = (next_ + allocation->bytes + kGap + 255) & ~uint64_t(255);
  allocations_.emplace(base, std::move(allocation));
  return base;
}

bool DeviceMemory::free(uint64_t address) {
  auto it = allocations_.find(address);
  if (it == allocations_.end() || it->second->isFreed)
    return false;
  Allocation &allocation = *it->second;
  // The addresses are not reused, so that later accesses are recognised.
  allocation.isFreed = true;
  liveBytes_ -= allocation.isHost ? 0 : allocation.bytes;
  allocation.pages = LazyPages();
  allocation.validPages = LazyPages();
  allocation.racePages = LazyPages();
  return true;
}

Allocation *DeviceMemory::find(uint64_t address) {
  if (last_ && address - last_->base < last_->bytes)
    return last_;
  if (Allocation *allocation = lookup(address))
    return last_ = allocation;
  return nullptr;
}

Allocation *DeviceMemory::lookup(uint64_t address) const {
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin())
    return nullptr;
  Allocation *allocation = std::prev(it)->second.get();
  return address - allocation->base < allocation->bytes ? allocation : nullptr;
}

std::string DeviceMemory::describe(uint64_t address) const {
  auto it = allocations_.upper_bound(address);
  auto of = [](const Allocation &a) {
    return fmt::format("{}'{}' ({} bytes at {:#x})", a.isFreed ? "freed " : "",
                       a.name, a.bytes, a.base);
  };
  if (it != allocations_.begin()) {
    const Allocation &before = *std::prev(it)->second;
    uint64_t offset = address - before.base;
    if (offset < before.bytes)
      return fmt::format("byte {} of {}", offset, of(before));
    if (offset - before.bytes < kGap * 16 || it == allocations_.end())
      return fmt::format("{} bytes past the end of {}", offset - before.bytes,
                         of(before));
  }
  if (it != allocations_.end())
    return fmt::format("{} bytes before {}", it->first - address,
                       of(*it->second));
  return "no allocation";
}

Allocation *DeviceMemory::range(uint64_t address, uint64_t bytes) {
  Allocation *allocation = find(address);
  if (!allocation || allocation->isFreed ||
      address - allocation->base + bytes > allocation->bytes)
    return nullptr;
  return allocation;
}

bool DeviceMemory::copyIn(uint64_t to, const void *from, uint64_t bytes) {
  if (!bytes)
    return true;
  Allocation *allocation = range(to, bytes);
  if (!allocation)
    return false;
  std::memcpy(allocation->host + (to - allocation->base), from, bytes);
  allocation->markWritten(to - allocation->base, bytes);
  return true;
}

bool DeviceMemory::copyOut(void *to, uint64_t from, uint64_t bytes) {
  if (!bytes)
    return true;
  Allocation *allocation = range(from, bytes);
  if (allocation)
    std::memcpy(to, allocation->host + (from - allocation->base), bytes);
  return allocation;
}

bool DeviceMemory::fill(uint64_t to, uint8_t value, uint64_t bytes) {
  if (!bytes)
    return true;
  Allocation *allocation = range(to, bytes);
  if (!allocation)
    return false;
  std::memset(allocation->host + (to - allocation->base), value, bytes);
  allocation->markWritten(to - allocation->base, bytes);
  return true;
}

} // namespace softgpu
