#include "test/kernels/cuda/Mirror.h"

#include <cstring>
#include <gtest/gtest.h>

namespace moek::test {

namespace {
// Addresses are aligned to the same number of bytes.
constexpr int64_t kGuard = 256;
constexpr uint8_t kGuardByte = 0xa5;
} // namespace

Mirror::~Mirror() {
  for (const Part &part : parts_)
    gpu_.free(part.base);
}

void *Mirror::add(const void *host, int64_t bytes, bool isOutput) {
  if (!host)
    return nullptr;
  // The copy has the host's alignment, on which some code depends.
  auto shift = int64_t(reinterpret_cast<uintptr_t>(host) % 64);
  std::vector<uint8_t> all(size_t(bytes + shift + 2 * kGuard), kGuardByte);
  std::memcpy(all.data() + kGuard + shift, host, size_t(bytes));
  uint64_t base = gpu_.allocate(all.size(), isOutput ? "output" : "input");
  gpu_.copyIn(base, all.data(), all.size());
  parts_.push_back({base, bytes, const_cast<void *>(host), isOutput});
  return reinterpret_cast<void *>(base + uint64_t(kGuard + shift));
}

std::byte *Mirror::workspace(int64_t bytes) {
  if (bytes == 0)
    return nullptr;
  uint64_t base = gpu_.allocate(size_t(bytes), "workspace");
  parts_.push_back({base, 0, nullptr, false});
  // The software GPU finds unwritten memory by itself.
  if (!gpu_.isSoftware()) {
    std::vector<uint8_t> poison(size_t(bytes), 0xff);
    gpu_.copyIn(base, poison.data(), poison.size());
  }
  return reinterpret_cast<std::byte *>(base);
}

void Mirror::finish() {
  for (const Part &part : parts_) {
    if (!part.host)
      continue;
    auto shift = int64_t(reinterpret_cast<uintptr_t>(part.host) % 64);
    std::vector<uint8_t> all(size_t(part.bytes + shift + 2 * kGuard));
    gpu_.copyOut(all.data(), part.base, all.size());
    const uint8_t *payload = all.data() + kGuard + shift;
    for (int64_t i = 1; i <= kGuard; ++i) {
      ASSERT_EQ(payload[-i], kGuardByte) << "written before a buffer";
      ASSERT_EQ(payload[part.bytes + i - 1], kGuardByte)
          << "written past the end of a buffer";
    }
    if (part.isOutput)
      std::memcpy(part.host, payload, size_t(part.bytes));
    else
      ASSERT_EQ(std::memcmp(part.host, payload, size_t(part.bytes)), 0)
          << "an input was written";
  }
}

} // namespace moek::test
