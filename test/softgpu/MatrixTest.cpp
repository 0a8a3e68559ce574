//===- MatrixTest.cpp - mma and ldmatrix ----------------------------------===//
//
// Fragments are computed here by the ISA's own formulas (PTX ISA 9.7.14.5, "row
// = ..., col = ..." for each element), independently of the interpreter. During
// development they were also compared with a second source: the layouts
// ALayout, BLayout and CLayout of CuTe's MMA_Traits for
// SM80_16x8x16_F32F16F16F32_TN, SM80_16x8x8_F32F16F16F32_TN,
// SM80_16x8x32_S32S8S8S32_TN, SM80_16x8x16_S32S8S8S32_TN and SM75_8x8x16's, and
// Copy_Traits of SM75_U32x{1,2,4}_LDSM_N and U16x{2,4,8}_LDSM_T (PyPI
// nvidia-cutlass 4.2: include/cute/atom).
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/PtxTest.h"

#include <cmath>
#include <fmt/format.h>

namespace softgpu {
namespace {

struct Place {
  int row, column;
};

// Element i of a lane, by the ISA's tables.
Place aHalf16(int lane, int i) {
  int group = lane >> 2, thread = lane % 4;
  int row = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8;
  int column = thread * 2 + (i & 1) + (i >= 4 ? 8 : 0);
  return {row, column};
}
Place bHalf16(int lane, int i) {
  return {(lane % 4) * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane >> 2};
}
Place cFragment(int lane, int i) {
  return {(lane >> 2) + (i < 2 ? 0 : 8), (lane % 4) * 2 + (i & 1)};
}
Place aHalf8(int lane, int i) {
  return {(lane >> 2) + (i < 2 ? 0 : 8), (lane % 4) * 2 + (i & 1)};
}
Place bHalf8(int lane, int i) { return {(lane % 4) * 2 + i, lane >> 2}; }
Place aByte32(int lane, int i) {
  int row = (i < 4 || (i >= 8 && i < 12)) ? lane >> 2 : (lane >> 2) + 8;
  return {row, (lane % 4) * 4 + (i & 3) + (i < 8 ? 0 : 16)};
}
Place bByte32(int lane, int i) {
  return {(lane % 4) * 4 + (i & 3) + (i < 4 ? 0 : 16), lane >> 2};
}
Place aByte16(int lane, int i) {
  return {(lane >> 2) + (i < 4 ? 0 : 8), (lane % 4) * 4 + (i & 3)};
}
Place bByte16(int lane, int i) { return {(lane % 4) * 4 + i, lane >> 2}; }
Place aByte8(int lane, int i) { return {lane >> 2, (lane % 4) * 4 + i}; }
Place cFragment8(int lane, int i) { return {lane >> 2, (lane % 4) * 2 + i}; }

using Layout = Place (*)(int, int);

class MatrixTest : public PtxTest {
protected:
  /// Runs one mma. Operands are words, lane by lane.
  std::vector<uint32_t> mma(const std::string &name, int d, int a, int b,
                            const std::vector<uint32_t> &wordsA,
                            const std::vector<uint32_t> &wordsB,
                            const std::vector<uint32_t> &wordsC,
                            LaunchResult *result = nullptr) {
    auto load = [](int base, int count, const char *pointer) {
      std::string text =
          fmt::format("mad.wide.u32 %rd9, %r90, {}, {};", 4 * count, pointer);
      for (int i = 0; i < count; ++i)
        text +=
            fmt::format("ld.global.u32 %r{}, [%rd9+{}];\n", base + i, 4 * i);
      return text;
    };
    auto list = [](int base, int count) {
      std::string text = "{";
      for (int i = 0; i < count; ++i)
        text += fmt::format("{}%r{}", i ? ", " : "", base + i);
      return text + "}";
    };
    std::string body = "mov.u32 %r90, %laneid; ld.param.u64 %rd0, [p0]; "
                       "ld.param.u64 %rd1, [p1];"
                       "ld.param.u64 %rd2, [p2]; ld.param.u64 %rd3, [p3];\n" +
                       load(10, a, "%rd0") + load(20, b, "%rd1") +
                       load(30, d, "%rd2");
    body += fmt::format("mma.sync.aligned.{} {}, {}, {}, {};\n", name,
                        list(0, d), list(10, a), list(20, b), list(30, d));
    body += fmt::format("mad.wide.u32 %rd9, %r90, {}, %rd3;", 4 * d);
    for (int i = 0; i < d; ++i)
      body += fmt::format("st.global.u32 [%rd9+{}], %r{};\n", 4 * i, i);
    const Kernel &k = kernel(body, 4, 80);
    uint64_t out = zeros(size_t(d) * 128);
    LaunchShape shape;
    shape.threads[0] = 32;
    LaunchResult r =
        gpu.run(k, shape, upload(wordsA), upload(wordsB), upload(wordsC), out);
    EXPECT_TRUE(isClean(r)) << name;
    if (result)
      *result = r;
    return download<uint32_t>(out, size_t(d) * 32);
  }

  /// Tests an integer product of a shape with elements at the layouts' places.
  void integer(const std::string &name, int rows, int depth, int d, int a,
               int b, Layout la, Layout lb, Layout lc, bool signedA,
               bool signedB) {
    std::mt19937 random(11);
    std::vector<std::vector<int>> A(rows, std::vector<int>(depth)),
        B(depth, std::vector<int>(8)), C(rows, std::vector<int>(8));
    for (auto *m : {&A, &B, &C})
      for (auto &row : *m)
        for (int &x : row)
          x = int(random() & 255);
    auto pack = [](auto &matrix, Layout layout, int registers) {
      std::vector<uint32_t> words(size_t(registers) * 32);
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < registers * 4; ++i) {
          Place p = layout(lane, i);
          words[lane * registers + i / 4] |= uint32_t(matrix[p.row][p.column])
                                             << 8 * (i % 4);
        }
      return words;
    };
    std::vector<uint32_t> wordsC(size_t(d) * 32);
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < d; ++i)
        wordsC[lane * d + i] =
            uint32_t(C[lc(lane, i).row][lc(lane, i).column] - 100);
    auto out = mma(name, d, a, b, pack(A, la, a), pack(B, lb, b), wordsC);
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < d; ++i) {
        Place p = lc(lane, i);
        int sum = C[p.row][p.column] - 100;
        for (int k = 0; k < depth; ++k)
          sum += (signedA ? int8_t(A[p.row][k]) : A[p.row][k]) *
                 (signedB ? int8_t(B[k][p.column]) : B[k][p.column]);
        EXPECT_EQ(int32_t(out[lane * d + i]), sum)
            << name << " " << p.row << " " << p.column;
      }
  }

  /// Tests sums of small whole numbers, which are exact in every model.
  void halves(const std::string &type, int depth, int a, int b, Layout la,
              Layout lb) {
    std::mt19937 random(12);
    float A[16][16], B[16][8], C[16][8];
    auto draw = [&] { return float(int(random() % 33) - 16); };
    for (auto &row : A)
      for (float &x : row)
        x = draw();
    for (auto &row : B)
      for (float &x : row)
        x = draw();
    for (auto &row : C)
      for (float &x : row)
        x = draw() * 256;
    auto bits = [&](float x) -> uint32_t {
      if (type == "bf16")
        return std::bit_cast<uint32_t>(x) >>
               16; // Exact, because the numbers have five bits.
      if (x == 0)
        return 0;
      int exponent;
      float m = std::frexp(std::fabs(x), &exponent);
      return (x < 0 ? 0x8000u : 0) | uint32_t(exponent + 14) << 10 |
             (uint32_t(m * 2048) & 1023);
    };
    std::vector<uint32_t> wa(size_t(a) * 32), wb(size_t(b) * 32), wc(128);
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 2 * a; ++i)
        wa[lane * a + i / 2] |= bits(A[la(lane, i).row][la(lane, i).column])
                                << 16 * (i % 2);
      for (int i = 0; i < 2 * b; ++i)
        wb[lane * b + i / 2] |= bits(B[lb(lane, i).row][lb(lane, i).column])
                                << 16 * (i % 2);
      for (int i = 0; i < 4; ++i)
        wc[lane * 4 + i] = uint32_t(
            bitsOf(C[cFragment(lane, i).row][cFragment(lane, i).column]));
    }
    std::string name =
        fmt::format("m16n8k{}.row.col.f32.{}.{}.f32", depth, type, type);
    auto out = mma(name, 4, a, b, wa, wb, wc);
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        Place p = cFragment(lane, i);
        float sum = C[p.row][p.column];
        for (int k = 0; k < depth; ++k)
          sum += A[p.row][k] * B[k][p.column];
        EXPECT_EQ(floatOf(out[lane * 4 + i]), sum)
            << name << " " << p.row << " " << p.column;
      }
  }

  /// Computes one dot product of k values in row 0, column 0; the rest is zero.
  float dot(const std::vector<float> &a, const std::vector<float> &b, float c) {
    std::vector<uint32_t> wa(128), wb(64), wc(128);
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 8; ++i)
        if (Place p = aHalf16(lane, i);
            p.row == 0 && size_t(p.column) < a.size())
          wa[lane * 4 + i / 2] |= uint32_t(bitsOf(a[p.column]) >> 16)
                                  << 16 * (i % 2);
      for (int i = 0; i < 4; ++i)
        if (Place p = bHalf16(lane, i);
            p.column == 0 && size_t(p.row) < b.size())
          wb[lane * 2 + i / 2] |= uint32_t(bitsOf(b[p.row]) >> 16)
                                  << 16 * (i % 2);
    }
    wc[0] = uint32_t(bitsOf(c));
    return floatOf(
        mma("m16n8k16.row.col.f32.bf16.bf16.f32", 4, 4, 2, wa, wb, wc)[0]);
  }
};

TEST_F(MatrixTest, IntegerProducts) {
  integer("m16n8k32.row.col.s32.s8.s8.s32", 16, 32, 4, 4, 2, aByte32, bByte32,
          cFragment, true, true);
  integer("m16n8k32.row.col.s32.u8.s8.s32", 16, 32, 4, 4, 2, aByte32, bByte32,
          cFragment, false, true);
  integer("m16n8k32.row.col.satfinite.s32.u8.u8.s32", 16, 32, 4, 4, 2, aByte32,
          bByte32, cFragment, false, false);
  integer("m16n8k16.row.col.s32.s8.s8.s32", 16, 16, 4, 2, 1, aByte16, bByte16,
          cFragment, true, true);
  integer("m8n8k16.row.col.s32.s8.u8.s32", 8, 16, 2, 1, 1, aByte8, bByte16,
          cFragment8, true, false);
}

TEST_F(MatrixTest, HalfProducts) {
  for (MmaSum sum : {MmaSum::Native, MmaSum::PlainF32})
    for (int arch : {80, 90}) {
      gpu.options().mmaSum = sum;
      gpu.options().arch = arch;
      halves("f16", 16, 4, 2, aHalf16, bHalf16);
      halves("bf16", 16, 4, 2, aHalf16, bHalf16);
      halves("f16", 8, 2, 1, aHalf8, bHalf8);
    }
}

/// What each generation drops, derived by hand from the rule of MMA-Sim (arXiv
/// 2511.10909): terms are truncated at 2^(largest exponent - 24 or 25), by
/// segments.
TEST_F(MatrixTest, SumsAreTruncatedAsOnHardware) {
  if (isOnDriver())
    GTEST_SKIP() << "compares several generations";
  auto with = [&](int arch, const std::vector<float> &a, float c) {
    gpu.options().arch = arch;
    return dot(a, std::vector<float>(a.size(), 1.0f), c);
  };
  float tiny = 0x1p-24f;
  // 1 + 16 terms of 2^-25: all are lost if truncated at 2^-24, and kept at
  // 2^-25. sm_80 has two segments, sm_90 one, where 15 units of 2^-25 are 7.5
  // units of F32's 2^-23 / 2.
  std::vector<float> a(16, tiny / 2);
  EXPECT_EQ(with(80, a, 1.0f), 1.0f);
  EXPECT_EQ(with(90, a, 1.0f), 1.0f + 4 * 0x1p-23f);
  // Truncated, not rounded: 1 + 2^-24 + 2^-24 + 2^-24 is 1 + 2^-23 and half a
  // unit.
  std::vector<float> three = {tiny, tiny, tiny};
  EXPECT_EQ(with(80, three, 1.0f), 1.0f + 0x1p-23f);
  // Negative sums are truncated toward zero, too.
  EXPECT_EQ(with(80, {-tiny, -tiny, -tiny}, -1.0f), -1.0f - 0x1p-23f);
  // sm_80's second half begins with a truncated sum.
  std::vector<float> split(16, 0.0f);
  split[0] = split[8] = tiny;
  EXPECT_EQ(with(80, split, 1.0f), 1.0f);
  EXPECT_EQ(with(90, split, 1.0f), 1.0f + 0x1p-23f);
  // The plain option rounds each step to nearest even.
  gpu.options().mmaSum = MmaSum::PlainF32;
  EXPECT_EQ(with(80, three, 1.0f), 1.0f);
}

TEST_F(MatrixTest, InfinityAndNan) {
  EXPECT_EQ(dot({INFINITY}, {1}, 0), INFINITY);
  EXPECT_TRUE(std::isnan(dot({INFINITY, 1}, {0, 1}, 0)));
  EXPECT_TRUE(std::isnan(dot({INFINITY, -INFINITY}, {1, 1}, 0)));
  EXPECT_EQ(dot({0x1p127f, 0x1p127f}, {2, 2}, 0), INFINITY);
}

TEST_F(MatrixTest, LdmatrixDistributesRows) {
  for (int count : {1, 2, 4})
    for (bool transposes : {false, true}) {
      std::string registers;
      for (int j = 0; j < count; ++j)
        registers += fmt::format("{}%r{}", j ? ", " : "", 10 + j);
      std::string body =
          fmt::format(R"(
        .shared .align 16 .b8 tile[1024];
        ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %laneid;
        mad.wide.u32 %rd2, %r0, 32, %rd0; mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 32, %r1;
        ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd2];
        st.shared.v4.u32 [%r2], {{%r20, %r21, %r22, %r23}};
        ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd2+16];
        st.shared.v4.u32 [%r2+16], {{%r20, %r21, %r22, %r23}};
        bar.warp.sync -1;
        xor.b32 %r3, %r0, 5; mad.lo.u32 %r3, %r3, 16, %r1;
        ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {{{}}}, [%r3];
        mad.wide.u32 %rd3, %r0, {}, %rd1;
        )",
                      count, transposes ? ".trans" : "", registers, 4 * count);
      for (int j = 0; j < count; ++j)
        body += fmt::format("st.global.u32 [%rd3+{}], %r{};\n", 4 * j, 10 + j);
      std::vector<uint16_t> tile(512);
      for (int i = 0; i < 512; ++i)
        tile[i] = uint16_t(i * 3 + 1);
      uint64_t out = zeros(512);
      LaunchShape shape;
      shape.threads[0] = 32;
      ASSERT_TRUE(isClean(gpu.run(kernel(body, 2), shape, upload(tile), out)));
      auto words = download<uint32_t>(out, size_t(count) * 32);
      for (int lane = 0; lane < 32; ++lane)
        for (int j = 0; j < count; ++j)
          for (int e = 0; e < 2; ++e) {
            // "Row r of matrix j is at the address of thread 8 j + r"; each
            // thread holds elements of row lane / 4, or, transposed, of column
            // lane / 4.
            int row = lane / 4, column = (lane % 4) * 2 + e;
            if (transposes)
              std::swap(row, column);
            int address = ((8 * j + row) ^ 5) * 8;
            EXPECT_EQ(words[lane * count + j] >> 16 * e & 0xFFFF,
                      tile[address + column])
                << count << transposes << " lane " << lane << " matrix " << j;
          }
    }
}

TEST_F(MatrixTest, MovmatrixTransposes) {
  const Kernel &k = kernel(R"(
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %laneid;
    mad.wide.u32 %rd2, %r0, 4, %rd0; mad.wide.u32 %rd3, %r0, 4, %rd1;
    ld.global.u32 %r1, [%rd2]; movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
    st.global.u32 [%rd3], %r2;)",
                           2);
  std::vector<uint16_t> in(64);
  for (int i = 0; i < 64; ++i)
    in[i] = uint16_t(100 + i);
  uint64_t out = zeros(128);
  LaunchShape shape;
  shape.threads[0] = 32;
  ASSERT_TRUE(isClean(gpu.run(k, shape, upload(in), out)));
  auto values = download<uint16_t>(out, 64);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j)
      EXPECT_EQ(values[i * 8 + j], in[j * 8 + i]);
}

TEST_F(MatrixTest, UsefulProductsAreCounted) {
  if (isOnDriver())
    GTEST_SKIP() << "no counters";
  // 5 rows, 3 columns and 10 of 16 k have non-zero elements.
  std::vector<uint32_t> a(128), b(64), c(128);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i)
      if (Place p = aHalf16(lane, i); p.row < 5 && p.column < 12)
        a[lane * 4 + i / 2] |= 0x3C00u << 16 * (i % 2);
    for (int i = 0; i < 4; ++i)
      if (Place p = bHalf16(lane, i); p.column < 3 && p.row >= 2)
        b[lane * 2 + i / 2] |= 0x3C00u << 16 * (i % 2);
  }
  LaunchResult result;
  mma("m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 2, a, b, c, &result);
  EXPECT_EQ(result.counters.macs, 2048u);
  EXPECT_EQ(result.counters.usefulMacs, 5u * 3 * 10);
  EXPECT_EQ(result.counters[OpClass::Mma], 1u);
}

} // namespace
} // namespace softgpu
