#include "test/softcpu/VectorTestMachine.h"

#include "kernels/Registry.h"

#include <cmath>
#include <cstddef>
#include <gtest/gtest.h>
#include <sys/mman.h>

using namespace moek;
using namespace moek::test;

// Functions that load and save registers, with room for an instruction.
asm(R"(
  .pushsection .rodata
  .macro before
  push %rbx
  push 128(%rdi)
  popfq
  mov (%rdi), %rax
  mov 8(%rdi), %rcx
  mov 16(%rdi), %rdx
  mov 24(%rdi), %rbx
  .endm
  .macro after
  mov %rax, (%rdi)
  mov %rcx, 8(%rdi)
  mov %rdx, 16(%rdi)
  mov %rbx, 24(%rdi)
  pushfq
  pop 128(%rdi)
  .endm
nativeAvx512:
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
  kmovq 136 + 8 * \i(%rdi), %k\i
  .endr
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  vmovdqu64 256 + 64 * \i(%rdi), %zmm\i
  .endr
  before
nativeAvx512Room:
  .fill 16, 1, 0x90
  after
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
  kmovq %k\i, 136 + 8 * \i(%rdi)
  .endr
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  vmovdqu64 %zmm\i, 256 + 64 * \i(%rdi)
  .endr
  vzeroupper
  pop %rbx
  ret
nativeAvx2:
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  vmovdqu 256 + 64 * \i(%rdi), %ymm\i
  .endr
  before
nativeAvx2Room:
  .fill 16, 1, 0x90
  after
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  vmovdqu %ymm\i, 256 + 64 * \i(%rdi)
  .endr
  vzeroupper
  pop %rbx
  ret
nativeEnd:
  .popsection
)");
extern "C" const uint8_t nativeAvx512[], nativeAvx512Room[], nativeAvx2[],
    nativeAvx2Room[], nativeEnd[];

static_assert(offsetof(Registers, flags) == 128 &&
              offsetof(Registers, mask) == 136 &&
              offsetof(Registers, vector) == 256);

namespace {
constexpr uint64_t kArithmeticFlags = 0x8d5;

/// Returns a page of writable and executable memory.
uint8_t *codePage() {
  static uint8_t *page = static_cast<uint8_t *>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return page;
}

bool decode(const Code &code, ZydisDecodedInstruction &instruction,
            ZydisDecodedOperand *operands) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(
      &decoder, code.bytes, sizeof(code.bytes), &instruction, operands));
}
} // namespace

GuardedMemory::GuardedMemory()
    : begin_(static_cast<std::byte *>(
          mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
  mprotect(end(), kBytes, PROT_NONE);
}

GuardedMemory::~GuardedMemory() { munmap(begin_, 2 * kBytes); }

void test::randomise(std::mt19937 &random, void *bytes, size_t count) {
  // Special values of integers, floats and doubles, and of their halves.
  constexpr uint64_t kSpecial[] = {
      0,          0x7f800000, 0xff800000,         0x7fc00000,
      0x7f800001, 0x00000001, 0x80000000,         0x7fffffff,
      0xffffffff, 0x3f800000, 0x3ff0000000000000, 0x7ff0000000000000,
      0x7c007e00, 0x80000001, 0x7ff8000000000000, 0xfff0000000000000,
      0x4f000000, 0xcf000000, 0x7ff0000000000001, 0x0000000000000001,
      0x5f000000, 0x4f800000, 0x41e0000000000000, 0x43e0000000000000,
      0xff7fffff, 0x00800000, 0xffffffffffffffff, 0x8000000000000000,
      0x8000,     0x7fff,     0x80007fff80007fff, 0x3fc00000,
      0xbf000000, 0x40200000, 0x8080808080808080, 0x7f7f7f7f7f7f7f7f,
  };
  auto *to = static_cast<std::byte *>(bytes);
  for (size_t i = 0; i < count; i += 8) {
    uint64_t value = uint64_t(random()) << 32 | random();
    unsigned kind = random() % 16;
    if (kind < 3) {
      value = kSpecial[random() % std::size(kSpecial)];
    } else if (kind < 8) {
      float floats[2];
      for (float &number : floats)
        number = std::ldexp(float(int32_t(random()) >> (random() % 31)),
                            -int(random() % 40));
      std::memcpy(&value, floats, 8);
    } else if (kind < 12) {
      double number = std::ldexp(double(int64_t(value) >> (random() % 63)),
                                 -int(random() % 70));
      std::memcpy(&value, &number, 8);
    }
    if (kind == 0)
      value |= value << 32;
    std::memcpy(to + i, &value, std::min<size_t>(8, count - i));
  }
}

Registers test::randomRegisters(std::mt19937 &random) {
  Registers registers;
  randomise(random, registers.vector, sizeof(registers.vector));
  for (uint64_t &number : registers.general)
    number = uint64_t(random()) << 32 | random();
  for (uint64_t &bits : registers.mask)
    bits = uint64_t(random()) << 32 | random();
  registers.flags = (random() & kArithmeticFlags) | 0x202;
  return registers;
}

size_t test::lengthOf(const Code &code) {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  return decode(code, instruction, operands) ? instruction.length : 0;
}

Registers test::execute(const Code &code, const Registers &before) {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!decode(code, instruction, operands)) {
    ADD_FAILURE() << "not an instruction";
    return before;
  }
  EXPECT_TRUE(isVectorInstruction(instruction, operands));
  auto known = decodeVectorInstruction(instruction, operands,
                                       reinterpret_cast<uint64_t>(&code));
  if (!known) {
    ADD_FAILURE() << "not known: "
                  << ZydisMnemonicGetString(instruction.mnemonic);
    return before;
  }
  Registers after = before;
  known->execute(*known, after);
  return after;
}

Registers test::executeNatively(const Code &code, const Registers &before,
                                Native native) {
  bool avx512 = native == Native::Avx512;
  const uint8_t *begin = avx512 ? nativeAvx512 : nativeAvx2;
  const uint8_t *room = avx512 ? nativeAvx512Room : nativeAvx2Room;
  uint8_t *page = codePage();
  std::memcpy(page, begin, size_t((avx512 ? nativeAvx2 : nativeEnd) - begin));
  std::memcpy(page + (room - begin), code.bytes, lengthOf(code));
  Registers after = before;
  reinterpret_cast<void (*)(Registers *)>(page)(&after);
  return after;
}

Registers test::executeBoth(const Code &code, const Registers &before,
                            GuardedMemory *memory, Beyond beyond,
                            size_t nanBytes) {
  static const bool hasAvx512 = hostSupports(Isa::Avx512);
  static const bool has[] = {hasAvx512, hasAvx512 && hostHasBf16Dot(),
                             hasAvx512 && hostSupports(Isa::AvxVnni)};
  std::vector<std::byte> bytes;
  if (memory)
    bytes = memory->copy();
  Registers after = execute(code, before);
  if (!has[size_t(beyond)])
    return after;
  std::vector<std::byte> written;
  if (memory) {
    written = memory->copy();
    memory->assign(bytes);
  }
  SCOPED_TRACE("natively");
  expectSame(after, executeNatively(code, before, Native::Avx512), nanBytes);
  EXPECT_TRUE(!memory || written == memory->copy());
  return after;
}

bool test::isNan(const void *number, size_t bytes) {
  return bytes == 4 ? std::isnan(elementAt<float>(number, 0))
                    : std::isnan(elementAt<double>(number, 0));
}

int test::failureCount() {
  return testing::UnitTest::GetInstance()
      ->current_test_info()
      ->result()
      ->total_part_count();
}

void test::expectSame(const Registers &actual, const Registers &expected,
                      size_t nanBytes) {
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(actual.general[i], expected.general[i]) << "general " << i;
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(actual.mask[i], expected.mask[i]) << "k" << i;
  EXPECT_EQ(actual.flags & kArithmeticFlags, expected.flags & kArithmeticFlags);
  for (int i = 0; i < 32; ++i) {
    Vector one = actual.vector[i];
    const Vector &other = expected.vector[i];
    for (size_t at = 0; nanBytes && at < sizeof(one.bytes); at += nanBytes)
      if (isNan(one.bytes + at, nanBytes) && isNan(other.bytes + at, nanBytes))
        std::memcpy(one.bytes + at, other.bytes + at, nanBytes);
    for (size_t j = 0; j < 16; ++j)
      EXPECT_EQ(elementAt<uint32_t>(&one, j), elementAt<uint32_t>(&other, j))
          << "zmm" << i << ", dword " << j;
  }
}
