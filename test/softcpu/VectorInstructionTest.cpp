#include "test/softcpu/VectorTestMachine.h"

#include <gtest/gtest.h>

namespace moek::test {

asm(R"(
  .pushsection .rodata
  .balign 16
alignedMoves:
  vmovaps (%rax), %zmm1
  .balign 16, 0x90
  vmovdqa32 %zmm1, (%rax)
  .balign 16, 0x90
  {evex} vmovdqa64 (%rax), %xmm1
  .balign 16, 0x90
notKnown:
  vpermb %zmm1, %zmm2, %zmm3
  .balign 16, 0x90
  vplzcntd %zmm1, %zmm2
  .balign 16, 0x90
  vpopcntd %zmm1, %zmm2
  .balign 16, 0x90
  vpaddd %fs:(%rax), %zmm1, %zmm2
  .balign 16, 0x90
relativeMove:
  kmovq number(%rip), %k1
  .balign 16, 0x90
number:
  .quad 0x0123456789abcdef
  .balign 16, 0x90
others:
  vpaddd %ymm1, %ymm2, %ymm3
  .balign 16, 0x90
  add %rax, %rcx
  .balign 16, 0x90
  .popsection
)");
extern "C" const Code alignedMoves[3], notKnown[4], relativeMove, others[2];

namespace {
class Decoded {
public:
  explicit Decoded(const Code &code) {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
                     ZYDIS_STACK_WIDTH_64);
    EXPECT_TRUE(ZYAN_SUCCESS(ZydisDecoderDecodeFull(
        &decoder, code.bytes, sizeof(code.bytes), &instruction_, operands_)));
  }
  bool isOurs() const { return isVectorInstruction(instruction_, operands_); }
  bool isKnown() const {
    return decodeVectorInstruction(instruction_, operands_, 0).has_value();
  }

private:
  ZydisDecodedInstruction instruction_;
  ZydisDecodedOperand operands_[ZYDIS_MAX_OPERAND_COUNT];
};

TEST(VectorInstruction, AlignedMovesNeedAlignedAddresses) {
  alignas(64) std::byte bytes[128] = {};
  for (const Code &code : alignedMoves) {
    Registers registers = {};
    registers.general[0] = reinterpret_cast<uint64_t>(bytes);
    execute(code, registers);
    registers.general[0] += 8;
    EXPECT_DEATH(execute(code, registers), "#GP: .* not aligned");
  }
}

TEST(VectorInstruction, AddressesCountFromTheNextInstruction) {
  EXPECT_EQ(execute(relativeMove, {}).mask[1], 0x0123456789abcdefu);
}

TEST(VectorInstruction, OtherExtensionsAreNotKnown) {
  // Kernels are not compiled for VBMI, CD or VPOPCNTDQ and use no segments.
  for (const Code &code : notKnown) {
    EXPECT_TRUE(Decoded(code).isOurs());
    EXPECT_FALSE(Decoded(code).isKnown());
  }
}

TEST(VectorInstruction, OthersRunNatively) {
  for (const Code &code : others)
    EXPECT_FALSE(Decoded(code).isOurs());
}
} // namespace

} // namespace moek::test
