#include "test/softcpu/VectorTestMachine.h"

#include <gtest/gtest.h>

namespace moek::test {

asm(R"(
  .pushsection .rodata
  .balign 16
gathers:
  vpgatherdd 4(%rax, %zmm2, 4), %zmm1{%k1}
  .balign 16, 0x90
  vgatherdps (%rax, %ymm2, 4), %ymm1{%k1}
  .balign 16, 0x90
  vpgatherdq (%rax, %ymm2, 8), %zmm1{%k1}
  .balign 16, 0x90
  vgatherdpd (%rax, %xmm2, 8), %xmm1{%k1}
  .balign 16, 0x90
  vpgatherqd (%rax, %zmm2, 1), %ymm1{%k1}
  .balign 16, 0x90
  vgatherqps (%rax, %xmm2, 2), %xmm1{%k1}
  .balign 16, 0x90
  vpgatherqq (%rax, %zmm2, 8), %zmm1{%k1}
  .balign 16, 0x90
  vgatherqpd -8(%rax, %ymm2, 8), %ymm1{%k1}
  .balign 16, 0x90
  .popsection
)");
extern "C" const Code gathers[];

namespace {
struct Gather {
  const char *name;
  size_t element, index, scale, count;
  int offset;
};

constexpr Gather kGathers[] = {
    {"vpgatherdd", 4, 4, 4, 16, 4}, {"vgatherdps", 4, 4, 4, 8, 0},
    {"vpgatherdq", 8, 4, 8, 8, 0},  {"vgatherdpd", 8, 4, 8, 2, 0},
    {"vpgatherqd", 4, 8, 1, 8, 0},  {"vgatherqps", 4, 8, 2, 2, 0},
    {"vpgatherqq", 8, 8, 8, 8, 0},  {"vgatherqpd", 8, 8, 8, 4, -8},
};

// Indices have both signs, and the mask is cleared. Addresses that it leaves
// out are not mapped.
TEST(VectorGather, TakesWhatTheMaskSays) {
  GuardedMemory memory;
  std::mt19937 random(7);
  randomise(random, memory.end() - GuardedMemory::kBytes,
            GuardedMemory::kBytes);
  std::byte *base = memory.end() - GuardedMemory::kBytes / 2;
  for (size_t i = 0; i < std::size(kGathers); ++i) {
    const Gather &gather = kGathers[i];
    SCOPED_TRACE(gather.name);
    for (int repeat = 0; repeat < 20; ++repeat) {
      Registers before = randomRegisters(random);
      before.general[0] = reinterpret_cast<uint64_t>(base);
      Registers expected = before;
      Vector result = {};
      for (size_t j = 0; j < gather.count; ++j) {
        bool active = before.mask[1] >> j & 1;
        int64_t index = active ? int64_t(random() % 400) - 200 : 1 << 30;
        std::memcpy(before.vector[2].bytes + j * gather.index, &index,
                    gather.index);
        const std::byte *from = before.vector[1].bytes + j * gather.element;
        if (active)
          from = base + index * int64_t(gather.scale) + gather.offset;
        std::memcpy(result.bytes + j * gather.element, from, gather.element);
      }
      expected.vector[2] = before.vector[2];
      expected.vector[1] = result;
      expected.mask[1] = 0;
      expectSame(executeBoth(gathers[i], before, &memory), expected);
    }
  }
}
} // namespace

} // namespace moek::test
