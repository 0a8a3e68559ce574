//===- PackersTest.cpp - Packers of all instruction sets agree ------------===//
//
// The packer for every CPU is compared with kernels/quant/Rows16.h, number by
// number, in Rows16Test. Here the others are compared with it on random bytes:
// every format, odd shapes, rows with gaps, and memory that ends where the rows
// and the panel do.
//
//===----------------------------------------------------------------------===//

#include "kernels/pack/Packers.h"

#include "test/kernels/GuardedBuffer.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

using namespace moek;
using moek::test::GuardedBuffer;

namespace {

class Packers : public testing::TestWithParam<std::tuple<Isa, Format>> {};

std::vector<Format> packedFormats() {
  std::vector<Format> formats;
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  if (rows16Shape(Format::name).codeBits != 0)                                 \
    formats.push_back(Format::name);
#include "kernels/quant/Formats.def"
  return formats;
}

INSTANTIATE_TEST_SUITE_P(
    All, Packers,
    testing::Combine(testing::Values(Isa::Avx2, Isa::Avx512),
                     testing::ValuesIn(packedFormats())),
    [](const auto &each) {
      return std::string(isaName(std::get<0>(each.param))) + "_" +
             std::string(formatInfo(std::get<1>(each.param)).name);
    });

TEST_P(Packers, WriteTheSameBytes) {
  auto [isa, format] = GetParam();
  PackPanelFn *pack = packerOf(isa), *reference = packerOf(Isa::Ref);
  if (!pack || !hostSupports(isa))
    GTEST_SKIP() << "this CPU has no " << isaName(isa);
  const FormatInfo info = formatInfo(format);
  std::mt19937_64 random{uint64_t(format)};
  auto upTo = [&](uint64_t most) { return int64_t(random() % most); };
  for (int round = 0; round < 60; ++round) {
    // Floats have pairs of columns.
    int64_t cols = (1 + upTo(9)) * std::max<int64_t>(info.blockElements, 2);
    int count = round % 3 == 0 ? int(1 + upTo(16)) : 16;
    auto rowSize = int64_t(rowBytes(format, uint64_t(cols)));
    int64_t stride = rowSize + upTo(3) * upTo(40);
    GuardedBuffer rows(size_t((count - 1) * stride + rowSize));
    std::generate_n(rows.data(), (count - 1) * stride + rowSize,
                    [&] { return uint8_t(random()); });
    size_t bytes = 16 * rowBytes(Layout::Rows16, format, uint64_t(cols));
    GuardedBuffer out(bytes);
    std::vector<uint8_t> expected(bytes, 0xaa);
    std::memset(out.data(), 0x55, bytes);
    ASSERT_TRUE(
        reference(format, rows.data(), stride, count, cols, expected.data()));
    ASSERT_TRUE(pack(format, rows.data(), stride, count, cols, out.data()));
    auto at = std::mismatch(expected.begin(), expected.end(), out.data()).first;
    ASSERT_TRUE(at == expected.end())
        << count << " rows of " << cols << " columns, byte "
        << at - expected.begin() << " of " << bytes;
  }
}

TEST(PackersTest, RefuseOtherFormatsAndColumns) {
  uint8_t out[64] = {};
  for (Isa isa : {Isa::Ref, Isa::Avx2, Isa::Avx512})
    if (PackPanelFn *pack = packerOf(isa); pack && hostSupports(isa)) {
      EXPECT_FALSE(pack(Format::F32, out, 4, 1, 1, out));
      EXPECT_FALSE(pack(Format::BF16, out, 14, 1, 7, out));
    }
  EXPECT_EQ(packerOf(Isa::Cuda), nullptr);
}

} // namespace
