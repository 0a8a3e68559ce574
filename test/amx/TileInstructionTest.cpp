//===- TileInstructionTest.cpp - Compares the decoder with the assembler --===//
//
// Each instruction of tables that the toolchain's assembler has assembled is
// decoded; it must have its operands and end where the next one begins.
//
//===----------------------------------------------------------------------===//

#include "test/amx/TileInstruction.h"

#include <gtest/gtest.h>
#include <vector>

using namespace moek::test;

// Every base and index register, scale and size of displacement. Registers are
// in the order of their numbers; "none" means no register.
asm(R"(
  .pushsection .rodata
sibForms:
  .irp base, rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
  .irp index, rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
  tileloadd (%\base, %\index, 1), %tmm0
  tileloaddt1 64(%\base, %\index, 2), %tmm3
  tilestored %tmm7, -128(%\base, %\index, 4)
  tileloadd 128(%\base, %\index, 8), %tmm5
  tileloadd -559038737(%\base, %\index, 1), %tmm6
  .endr
  .endr
sibFormsEnd:
  .quad 0
noBaseForms:
  .irp index, rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
  tileloadd 4096(, %\index, 4), %tmm1
  .endr
noBaseFormsEnd:
  .quad 0
noIndexForms:
  .irp base, rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
  tileloadd (%\base), %tmm2
  tilestored %tmm4, 512(%\base)
  .endr
noIndexFormsEnd:
  .quad 0
configForms:
  .irp base, rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
  ldtilecfg (%\base)
  sttilecfg 127(%\base)
  ldtilecfg -129(%\base)
  sttilecfg 8(%\base, %r13, 8)
  .endr
configFormsEnd:
  .quad 0
ripForms:
  ldtilecfg 1000(%rip)
  sttilecfg -1000(%rip)
  ldtilecfg 1000
ripFormsEnd:
  .quad 0
registerForms:
  .irp a, 0, 1, 2, 3, 4, 5, 6, 7
  tilezero %tmm\a
  .irp b, 0, 1, 2, 3, 4, 5, 6, 7
  .irp c, 0, 1, 2, 3, 4, 5, 6, 7
  .if (\a != \b) & (\b != \c) & (\a != \c)
  tdpbssd %tmm\c, %tmm\b, %tmm\a
  tdpbsud %tmm\c, %tmm\b, %tmm\a
  tdpbusd %tmm\c, %tmm\b, %tmm\a
  tdpbuud %tmm\c, %tmm\b, %tmm\a
  tdpbf16ps %tmm\c, %tmm\b, %tmm\a
  .endif
  .endr
  .endr
  .endr
  tilerelease
registerFormsEnd:
  .quad 0
otherForms:
  ud2
  nop
  vpshufb %xmm1, %xmm2, %xmm3
  vaddps %zmm1, %zmm2, %zmm3
  andn %rax, %rbx, %rcx
  bextr %rax, (%rbx,%rcx), %rdx
  vpsrlvd %xmm9, %xmm10, %xmm11
  vpdpbusd %xmm1, %xmm2, %xmm3
  .quad 0
  .popsection
)");

extern "C" {
extern const uint8_t sibForms[], sibFormsEnd[], noBaseForms[], noBaseFormsEnd[],
    noIndexForms[], noIndexFormsEnd[], configForms[], configFormsEnd[],
    ripForms[], ripFormsEnd[], registerForms[], registerFormsEnd[],
    otherForms[];
}

namespace {
constexpr int kNone = TileInstruction::kNone;
/// Registers that can be an index: all but rsp.
constexpr int kIndexes[] = {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/// Walks a table of instructions.
class Table {
public:
  Table(const uint8_t *begin, const uint8_t *end) : at_(begin), end_(end) {}
  ~Table() { EXPECT_EQ(at_, end_); }

  TileInstruction next() {
    auto decoded = decodeTileInstruction(at_);
    EXPECT_TRUE(decoded) << "byte " << offset_;
    if (!decoded)
      return {TileOp::TileRelease, 1};
    at_ += decoded->length;
    offset_ += decoded->length;
    return *decoded;
  }

  void expectRows(TileOp op, int tile, int base, int index, int scale,
                  int32_t displacement) {
    TileInstruction got = next();
    EXPECT_EQ(got.op, op) << "byte " << offset_;
    EXPECT_EQ(got.tile, tile);
    EXPECT_EQ(got.base, base) << "byte " << offset_;
    EXPECT_EQ(got.index, index) << "byte " << offset_;
    EXPECT_EQ(got.scale, index == kNone ? got.scale : scale);
    EXPECT_EQ(got.displacement, displacement);
    EXPECT_EQ(got.left, kNone);
  }

private:
  const uint8_t *at_, *end_;
  int offset_ = 0;
};

TEST(TileInstructionTest, EveryBaseAndIndex) {
  Table table(sibForms, sibFormsEnd);
  for (int base = 0; base < 16; ++base)
    for (int index : kIndexes) {
      table.expectRows(TileOp::TileLoadD, 0, base, index, 0, 0);
      table.expectRows(TileOp::TileLoadDT1, 3, base, index, 1, 64);
      table.expectRows(TileOp::TileStoreD, 7, base, index, 2, -128);
      table.expectRows(TileOp::TileLoadD, 5, base, index, 3, 128);
      table.expectRows(TileOp::TileLoadD, 6, base, index, 0, -559038737);
    }
}

TEST(TileInstructionTest, IndexWithoutBase) {
  Table table(noBaseForms, noBaseFormsEnd);
  for (int index : kIndexes)
    table.expectRows(TileOp::TileLoadD, 1, kNone, index, 2, 4096);
}

TEST(TileInstructionTest, BaseWithoutIndex) {
  Table table(noIndexForms, noIndexFormsEnd);
  for (int base = 0; base < 16; ++base) {
    table.expectRows(TileOp::TileLoadD, 2, base, kNone, 0, 0);
    table.expectRows(TileOp::TileStoreD, 4, base, kNone, 0, 512);
  }
}

TEST(TileInstructionTest, Configurations) {
  Table table(configForms, configFormsEnd);
  for (int base = 0; base < 16; ++base) {
    table.expectRows(TileOp::LdTileCfg, kNone, base, kNone, 0, 0);
    table.expectRows(TileOp::StTileCfg, kNone, base, kNone, 0, 127);
    table.expectRows(TileOp::LdTileCfg, kNone, base, kNone, 0, -129);
    table.expectRows(TileOp::StTileCfg, kNone, base, 13, 3, 8);
  }
}

TEST(TileInstructionTest, RelativeAndAbsoluteAddresses) {
  Table table(ripForms, ripFormsEnd);
  constexpr int rip = TileInstruction::kRip;
  table.expectRows(TileOp::LdTileCfg, kNone, rip, kNone, 0, 1000);
  table.expectRows(TileOp::StTileCfg, kNone, rip, kNone, 0, -1000);
  table.expectRows(TileOp::LdTileCfg, kNone, kNone, kNone, 0, 1000);
}

TEST(TileInstructionTest, EveryTripleOfTiles) {
  Table table(registerForms, registerFormsEnd);
  for (int to = 0; to < 8; ++to) {
    TileInstruction zero = table.next();
    EXPECT_EQ(zero.op, TileOp::TileZero);
    EXPECT_EQ(zero.tile, to);
    for (int left = 0; left < 8; ++left)
      for (int right = 0; right < 8; ++right) {
        if (to == left || left == right || to == right)
          continue;
        for (TileOp op : {TileOp::TdpBssd, TileOp::TdpBsud, TileOp::TdpBusd,
                          TileOp::TdpBuud, TileOp::TdpBf16ps}) {
          TileInstruction got = table.next();
          EXPECT_EQ(got.op, op);
          EXPECT_EQ(got.tile, to);
          EXPECT_EQ(got.left, left);
          EXPECT_EQ(got.right, right);
          EXPECT_EQ(got.base, kNone);
        }
      }
  }
  EXPECT_EQ(table.next().op, TileOp::TileRelease);
}

TEST(TileInstructionTest, OtherInstructionsAreNone) {
  for (int i = 0; i < 48; ++i)
    EXPECT_FALSE(decodeTileInstruction(otherForms + i)) << "byte " << i;
}

TEST(TileInstructionTest, WrongBitsAreNone) {
  // tileloadd 64(%rsi,%rdx,1), %tmm1
  const std::vector<uint8_t> load{0xc4, 0xe2, 0x7b, 0x4b,
                                  0x4c, 0x16, 0x40, 0x00};
  ASSERT_TRUE(decodeTileInstruction(load.data()));
  struct {
    size_t byte;
    uint8_t value;
    const char *why;
  } cases[] = {{0, 0xc5, "two-byte VEX"},
               {1, 0x62, "tile 9"},
               {1, 0xe1, "map 0F"},
               {1, 0xe3, "map 0F3A"},
               {2, 0xfb, "W"},
               {2, 0x7f, "256 bits"},
               {2, 0x73, "vvvv in use"},
               {2, 0x78, "no such prefix"},
               {3, 0x4c, "another opcode"},
               {4, 0x4a, "no SIB byte"},
               {4, 0xcc, "a register operand"}};
  for (const auto &c : cases) {
    std::vector<uint8_t> bytes = load;
    bytes[c.byte] = c.value;
    EXPECT_FALSE(decodeTileInstruction(bytes.data())) << c.why;
  }
  // tdpbssd %tmm2, %tmm1, %tmm0, and the same with invalid tiles above 7.
  std::vector<uint8_t> product{0xc4, 0xe2, 0x6b, 0x5e, 0xc1};
  ASSERT_TRUE(decodeTileInstruction(product.data()));
  for (auto [byte, value] :
       {std::pair<size_t, uint8_t>{1, 0x62}, {1, 0xc2}, {2, 0x2b}, {4, 0x41}}) {
    std::vector<uint8_t> bytes = product;
    bytes[byte] = value;
    bytes.resize(12);
    EXPECT_FALSE(decodeTileInstruction(bytes.data())) << byte;
  }
}

} // namespace
