//===- CodeArena.cpp - Memory for machine code written at run time --------===//

#include "test/softcpu/CodeArena.h"

#include <cstring>
#include <sys/mman.h>

namespace moek::test {

namespace {
/// Maps writable and executable pages near this function; returns null if there
/// are none.
std::byte *mapNearCode(size_t bytes) {
  constexpr uintptr_t kStep = 1 << 20, kReach = 1 << 30;
  auto here = reinterpret_cast<uintptr_t>(&mapNearCode) / kStep * kStep;
  for (uintptr_t distance = kStep; distance < kReach; distance += kStep)
    for (uintptr_t at : {here + distance, here - distance}) {
      if (at > here && distance > here)
        continue; // here - distance has wrapped around.
      void *memory =
          ::mmap(reinterpret_cast<void *>(at), bytes,
                 PROT_READ | PROT_WRITE | PROT_EXEC,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (memory == reinterpret_cast<void *>(at))
        return static_cast<std::byte *>(memory);
      if (memory != MAP_FAILED) // Some kernels take the address only as a hint.
        ::munmap(memory, bytes);
    }
  return nullptr;
}
} // namespace

CodeArena::CodeArena(size_t dataBytes, size_t codeBytes) {
  memory_ = mapNearCode(dataBytes + codeBytes);
  if (!memory_)
    return;
  next_ = memory_ + dataBytes;
  end_ = next_ + codeBytes;
}

CodeArena::~CodeArena() {
  if (memory_)
    ::munmap(memory_, size_t(end_ - memory_));
}

void CodeArena::put(std::initializer_list<int> bytes) {
  for (int byte : bytes)
    *next_++ = std::byte(byte);
}

void CodeArena::put(std::span<const uint8_t> bytes) {
  std::memcpy(next_, bytes.data(), bytes.size());
  next_ += bytes.size();
}

void CodeArena::put32(int32_t value) {
  std::memcpy(next_, &value, sizeof(value));
  next_ += sizeof(value);
}

void CodeArena::putRelative(std::initializer_list<int> opcode, int reg,
                            const void *target) {
  put(opcode);
  put({(reg & 7) << 3 | 5});
  put32(int32_t(static_cast<const std::byte *>(target) - (next_ + 4)));
}

} // namespace moek::test
