//===- Rows16Test.cpp - The interleaved layout, byte by byte --------------===//
//
// Kernels and packer could agree on a wrong order, so these tests read single
// codes from packed panels as kernels/quant/Rows16.h describes them.
//
//===----------------------------------------------------------------------===//

#include "kernels/quant/Rows16.h"

#include "kernels/quant/Blocks.h"
#include "test/kernels/GemmProblem.h"

using namespace moek;
using namespace moek::test;

namespace {

constexpr int64_t kCols = 512;

std::vector<uint8_t> rowsOf(Format format, int64_t rows, int64_t cols) {
  std::mt19937 random(3);
  int64_t stride = int64_t(rowBytes(format, uint64_t(cols)));
  std::vector<uint8_t> bytes(size_t(rows * stride));
  randomWeights(format, rows, cols, stride, random, bytes.data());
  return bytes;
}

/// Returns the code of column `c` of row `r` in a code part of `bits` bits.
int codeAt(const uint8_t *part, int bits, int r, int c) {
  int group = c / 4, lane = 4 * r + c % 4, code = 0, shift = 0;
  if (bits == 8)
    return part[64 * group + lane];
  if (bits >= 4) {
    code = part[64 * (group % 4) + lane] >> (group / 4 * 4) & 15;
    part += 256;
    shift = 4;
  }
  if (bits == 2 || bits == 3 || bits == 6) {
    code |= (part[64 * (group / 4) + lane] >> (group % 4 * 2) & 3) << shift;
    part += 128;
    shift += 2;
  }
  if (bits == 3 || bits == 5)
    code |= (part[lane] >> group & 1) << shift;
  return code;
}

template <Format F> void expectCodes() {
  using Block = BlockOf<F>;
  constexpr int64_t kRows = 16, kBlock = Block::kElements;
  constexpr Rows16Shape kShape = rows16Shape(F);
  std::vector<uint8_t> rows = rowsOf(F, kRows, kCols);
  std::vector<uint8_t> panel = layOut(Layout::Rows16, F, rows, kRows, kCols);
  ASSERT_EQ(panel.size(), 16 * rows16Bytes(F, kCols));
  for (int64_t i = 0; i < kCols / kBlock; ++i) {
    const uint8_t *tile =
        panel.data() +
        i * 16 * (kShape.scaleBytes + kBlock * kShape.codeBits / 8);
    for (int r = 0; r < 16; ++r) {
      Block block = reinterpret_cast<const Block *>(rows.data() +
                                                    r * rowBytes(F, kCols))[i];
      uint8_t codes[kBlock];
      block.unpackCodes(codes);
      if constexpr (F == Format::MXFP4) {
        ASSERT_EQ(tile[r], block.d);
      } else if constexpr (F != Format::NVFP4) { // NVFP4 has no d.
        ASSERT_EQ(tile[2 * r] | tile[2 * r + 1] << 8, halfOf(block).value());
      }
      for (int c = 0; c < kBlock; ++c)
        ASSERT_EQ(codeAt(tile + 16 * kShape.scaleBytes +
                             c / 32 * 64 * kShape.codeBits,
                         kShape.codeBits, r, c % 32),
                  codes[c] >> (BlockTraits<Block>::kShiftCols ? 3 : 0))
            << "row " << r << ", column " << i * kBlock + c;
    }
  }
}

TEST(Rows16, CodesLieWhereTheHeaderSays) {
  expectCodes<Format::Q4_0>();
  expectCodes<Format::Q4_1>();
  expectCodes<Format::Q5_0>();
  expectCodes<Format::Q5_1>();
  expectCodes<Format::Q8_0>();
  expectCodes<Format::Q2_K>();
  expectCodes<Format::Q3_K>();
  expectCodes<Format::Q4_K>();
  expectCodes<Format::Q5_K>();
  expectCodes<Format::Q6_K>();
  expectCodes<Format::IQ4_NL>();
  expectCodes<Format::IQ4_XS>();
  expectCodes<Format::MXFP4>();
  expectCodes<Format::NVFP4>();
}

TEST(Rows16, GridsAreLaidOutAsCodesOfColumns) {
  expectCodes<Format::IQ1_S>();
  expectCodes<Format::IQ1_M>();
  expectCodes<Format::IQ2_XXS>();
  expectCodes<Format::IQ2_XS>();
  expectCodes<Format::IQ2_S>();
  expectCodes<Format::IQ3_XXS>();
  expectCodes<Format::IQ3_S>();
}

TEST(Rows16, NibblesAndShiftsLieWhereTheHeaderSays) {
  std::vector<uint8_t> rows = rowsOf(Format::IQ1_M, 16, 256);
  std::vector<uint8_t> tile =
      layOut(Layout::Rows16, Format::IQ1_M, rows, 16, 256);
  ASSERT_EQ(tile.size(), size_t(16 * (2 + 8 + 4 + 64)));
  const uint8_t *scales = tile.data() + 32, *shifts = scales + 8 * 16;
  for (int r = 0; r < 16; ++r) {
    const BlockIQ1_M &block =
        reinterpret_cast<const BlockIQ1_M *>(rows.data())[r];
    for (int i = 0; i < 16; ++i)
      ASSERT_EQ(2 * (scales[i % 8 * 16 + r] >> (i / 8 * 4) & 15) + 1,
                block.scale(i));
    for (int i = 0; i < 32; ++i)
      ASSERT_EQ(shifts[2 * i + r / 8] >> (r % 8) & 1, block.shift(i));
  }
}

// In files 0x7f means 0, and a sign nothing: each byte's value is that of seven
// bits in the panel.
TEST(Rows16, FloatScalesLieWhereTheHeaderSays) {
  std::vector<uint8_t> rows = rowsOf(Format::NVFP4, 16, 64);
  auto *blocks = reinterpret_cast<BlockNVFP4 *>(rows.data());
  constexpr uint8_t kSpecial[][2] = {{0x7f, 0},    {0xff, 0x7f}, {0x80, 0},
                                     {0x81, 0x01}, {0x7e, 0x7e}, {0x07, 0x07},
                                     {0x08, 0x08}};
  for (size_t i = 0; i < std::size(kSpecial); ++i)
    blocks[i].scales[i % 4] = kSpecial[i][0];
  std::vector<uint8_t> tile =
      layOut(Layout::Rows16, Format::NVFP4, rows, 16, 64);
  ASSERT_EQ(tile.size(), rows.size());
  for (size_t i = 0; i < std::size(kSpecial); ++i)
    EXPECT_EQ(tile[16 * (i % 4) + i], kSpecial[i][1]);
  for (size_t r = 0; r < 16; ++r)
    for (size_t s = 0; s < 4; ++s) {
      ASSERT_LT(tile[16 * s + r], 0x80);
      // Seven places higher they are F16.
      ASSERT_EQ(f16ToFloat(Bits16::of(uint16_t(tile[16 * s + r] << 7))) *
                    kFloatsUnit,
                blocks[r].scale(int(s)));
    }
}

TEST(Rows16, SixBitNumbersLieWhereTheHeaderSays) {
  std::vector<uint8_t> rows = rowsOf(Format::Q4_K, 16, 256);
  std::vector<uint8_t> tile =
      layOut(Layout::Rows16, Format::Q4_K, rows, 16, 256);
  const uint8_t *low = tile.data() + 64, *top = low + 8 * 16;
  for (int r = 0; r < 16; ++r) {
    const KScales &scales =
        reinterpret_cast<const BlockQ4_K *>(rows.data())[r].scales;
    for (int i = 0; i < 16; ++i) {
      int number = (low[i % 8 * 16 + r] >> (i / 8 * 4) & 15) |
                   (top[i % 4 * 16 + r] >> (i / 4 * 2) & 3) << 4;
      ASSERT_EQ(number, i < 8 ? scales.scale(i) : scales.min(i - 8));
    }
  }
}

TEST(Rows16, PairsOfSixteenBitFloats) {
  std::vector<uint8_t> rows = rowsOf(Format::BF16, 16, 6);
  std::vector<uint8_t> panel =
      layOut(Layout::Rows16, Format::BF16, rows, 16, 6);
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 6; ++c)
      for (int b = 0; b < 2; ++b)
        ASSERT_EQ(panel[size_t(64 * (c / 2) + 4 * r + 2 * (c % 2) + b)],
                  rows[size_t(12 * r + 2 * c + b)]);
}

TEST(Rows16, MissingRowsAreZero) {
  std::vector<uint8_t> rows = rowsOf(Format::Q8_0, 5, 64);
  std::vector<uint8_t> panel =
      layOut(Layout::Rows16, Format::Q8_0, rows, 5, 64);
  ASSERT_EQ(panel.size(), size_t(16 * 68));
  for (int r = 5; r < 16; ++r) {
    EXPECT_EQ(panel[size_t(2 * r)], 0);
    EXPECT_EQ(panel[size_t(32 + 4 * r)], 0);
  }
}

TEST(Rows16, RefusesOtherFormatsAndColumns) {
  uint8_t out[64] = {};
  EXPECT_FALSE(hasRows16(Format::F32, 64));
  EXPECT_FALSE(hasRows16(Format::BF16, 7));
  EXPECT_TRUE(hasRows16(Format::BF16, 8));
  EXPECT_FALSE(packRows16(Format::F32, out, 4, 1, 1, out));
}

} // namespace
