//===- Registers.h - Registers of the software CPU --------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTCPU_REGISTERS_H
#define MOE_TEST_SOFTCPU_REGISTERS_H

#include <cstddef>
#include <cstdint>

namespace moek::test {

struct alignas(64) Vector {
  std::byte bytes[64];
};

/// The registers of an x86-64 CPU with AVX-512, except for tiles. They are
/// numbered as in the encoding: general[0] is rax, [1] rcx, ... [15] r15.
struct Registers {
  uint64_t general[16];
  uint64_t flags; ///< The register RFLAGS.
  uint64_t mask[8];
  Vector vector[32];
};

/// A memory operand: base + (index << scale) + displacement. RIP-relative
/// addresses are made absolute when decoded.
struct Address {
  static constexpr int8_t kNone = -1;

  int8_t base = kNone, index = kNone;
  uint8_t scale = 0;
  int64_t displacement = 0;

  std::byte *of(const Registers &registers) const {
    uint64_t at = uint64_t(displacement);
    if (base != kNone)
      at += registers.general[base];
    if (index != kNone)
      at += registers.general[index] << scale;
    return reinterpret_cast<std::byte *>(at);
  }
};

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_REGISTERS_H
