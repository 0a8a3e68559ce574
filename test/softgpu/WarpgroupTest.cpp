//===- WarpgroupTest.cpp - wgmma ------------------------------------------===//
//
// Layouts are computed here from the ISA's words (PTX ISA 9.7.15.5.1, "Register
// Fragments and Shared Memory Matrix Layouts"): a pattern of eight rows of 16,
// 32, 64 or 128 bytes, whose sixteen-byte words are exchanged within a row.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Clock.h"
#include "test/softgpu/PtxTest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace softgpu {
namespace {

/// A product of one warpgroup: D[64][n] (+)= A[64][16] * B[16][n].
struct Product {
  int n = 64;
  std::string type = "f16";
  bool sharedA = false, adds = true;
  /// Words of 16 bytes in a row of the swizzle pattern: 1, 2, 4 or 8.
  int wordsA = 8, wordsB = 8;
  bool transposedA = false, transposedB = false;
  int signA = 1, signB = 1;
};

/// The place in memory of a matrix of `majors` rows (or columns) by sixteen k.
struct Stored {
  int words;
  bool isTransposed;
  int majors;

  // Swizzle patterns follow each other in memory, first along the rows; the
  // strides of the descriptor say so.
  int pattern() const { return 128 * words; }
  int across() const { return isTransposed ? 8 * words : 8; }
  int patterns() const { return (majors + across() - 1) / across(); }
  int bytes() const {
    return 2 * patterns() * pattern() * (words == 1 ? 1 : 2);
  }
  /// Distance from the patterns of k < 8 to those of k >= 8, where they are not
  /// the same.
  int furtherK() const { return patterns() * pattern(); }
  int addressOf(int major, int k) const {
    // Place in the pattern: which of eight rows, which word, which element.
    int row, word, element, at;
    if (isTransposed) {
      row = k % 8;
      word = major / 8 % words;
      element = major % 8;
      at = major / across() * pattern() + k / 8 * furtherK();
    } else {
      row = major % 8;
      word = words > 1 ? k / 8 : 0;
      element = k % 8;
      at = major / 8 * pattern() + (words > 1 ? 0 : k / 8 * furtherK());
    }
    // 128 bytes: word i is at i ^ row; 64: i ^ row / 2; 32: i ^ row / 4.
    int swizzled = word ^ (row / (8 / words) % words);
    return at + row * 16 * words + swizzled * 16 + element * 2;
  }
  uint64_t descriptor(int address) const {
    static constexpr uint64_t kModes[] = {0, 0, 3, 0, 2, 0, 0, 0, 1};
    int leading = 16, stride = pattern();
    if (words == 1 && !isTransposed)
      leading = furtherK();
    if (words == 1 && isTransposed)
      leading = furtherK(), stride = pattern();
    if (words > 1 && isTransposed)
      leading = pattern(), stride = furtherK();
    return kModes[words] << 62 | uint64_t(stride / 16) << 32 |
           uint64_t(leading / 16) << 16 | uint64_t(address / 16);
  }
};

class WarpgroupTest : public PtxTest {
protected:
  static constexpr int kBytes = 40 << 10, kAtB = 8 << 10;

  static std::string list(const char *prefix, int count) {
    std::string text = "{";
    for (int i = 0; i < count; ++i)
      text += fmt::format("{}{}{}", i ? ", " : "", prefix, i);
    return text + "}";
  }
  static Stored storedA(const Product &p) {
    return {p.wordsA, p.transposedA, 64};
  }
  static Stored storedB(const Product &p) {
    return {p.wordsB, p.transposedB, p.n};
  }
  static std::string instruction(const Product &p) {
    std::string a =
        p.sharedA ? fmt::format("{:#x}", storedA(p).descriptor(0)) : "";
    return fmt::format(
        "wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {}, {}, %db, %adds, "
        "{}, {}{}, {};\n",
        p.n, p.type, p.type, list("%s", p.n / 2),
        p.sharedA ? "%da" : list("%a", 4), p.signA, p.signB,
        p.sharedA ? fmt::format(", {}", int(p.transposedA)) : "",
        int(p.transposedB));
  }
  /// Multiplies `times` times. Faults are put in by replacing text.
  static std::string text(const Product &p, const std::string &products,
                          int threads = 128, bool loadsSums = true) {
    std::string sums, stores, a;
    for (int i = 0; i < p.n / 2; ++i) {
      sums += loadsSums
                  ? fmt::format("ld.global.f32 %s{}, [%rc+{}];\n", i, 4 * i)
                  : fmt::format("mov.f32 %s{}, 0f00000000;\n", i);
      stores += fmt::format("st.global.f32 [%ro+{}], %s{};\n", 4 * i, i);
    }
    for (int i = 0; i < 4; ++i)
      a += fmt::format("ld.global.u32 %a{}, [%ra+{}];\n", i, 4 * i);
    return fmt::format(
        R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
{{
.reg .f32 %s<128>; .reg .b32 %a<4>, %t, %i, %v<4>;
.reg .b64 %ra, %rm, %rc, %ro, %w, %m, %da, %db; .reg .pred %adds, %more, %some;
.shared .align 1024 .b8 tile[{bytes}];
mov.u32 %t, %tid.x;
ld.param.u64 %ra, [p0]; ld.param.u64 %rm, [p1]; ld.param.u64 %rc, [p2]; ld.param.u64 %ro, [p3];
mad.wide.u32 %ra, %t, 16, %ra;
mad.wide.u32 %rc, %t, {row}, %rc;
mad.wide.u32 %ro, %t, {row}, %ro;
mov.u32 %i, %t;
copy:
mul.wide.u32 %w, %i, 16; add.u64 %m, %rm, %w;
ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%m];
st.shared.v4.u32 [%w], {{%v0, %v1, %v2, %v3}};
add.u32 %i, %i, {threads}; setp.lt.u32 %more, %i, {words};
@%more bra copy;
{a}{sums}
setp.{adds}.u32 %adds, 1, 1;
setp.eq.u32 %some, %t, 5;
mov.u64 %da, {da}; mov.u64 %db, {db};
{products}
{stores}
ret;
}})",
        fmt::arg("bytes", kBytes), fmt::arg("row", 2 * p.n),
        fmt::arg("words", kBytes / 16), fmt::arg("threads", threads),
        fmt::arg("a", a), fmt::arg("sums", sums),
        fmt::arg("adds", p.adds ? "eq" : "ne"),
        fmt::arg("da", storedA(p).descriptor(0)),
        fmt::arg("db", storedB(p).descriptor(kAtB)),
        fmt::arg("products", products), fmt::arg("stores", stores));
  }
  static std::string whole(const Product &p) {
    return "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
           "wgmma.fence.sync.aligned;\n" +
           instruction(p) +
           "wgmma.commit_group.sync.aligned;\n"
           "wgmma.wait_group.sync.aligned 0;\n";
  }

  uint16_t bitsOf16(const Product &p, float x) {
    if (p.type == "bf16")
      return uint16_t(std::bit_cast<uint32_t>(x) >> 16);
    if (x == 0)
      return 0;
    int exponent;
    float m = std::frexp(std::fabs(x), &exponent);
    return uint16_t((x < 0 ? 0x8000u : 0) | uint32_t(exponent + 14) << 10 |
                    (uint32_t(m * 2048) & 1023));
  }

  LaunchResult launch(const Product &p, const std::string &products,
                      int threads = 128) {
    std::mt19937 random(7);
    auto draw = [&] { return float(int(random() % 31)) - 15; };
    for (auto &row : A)
      for (float &x : row)
        x = draw();
    for (auto &row : B)
      for (float &x : row)
        x = draw();
    for (auto &row : C)
      for (float &x : row)
        x = 64 * draw();
    std::vector<uint16_t> image(kBytes / 2);
    for (int k = 0; k < 16; ++k) {
      for (int m = 0; m < 64; ++m)
        image[size_t(storedA(p).addressOf(m, k)) / 2] = bitsOf16(p, A[m][k]);
      for (int n = 0; n < p.n; ++n)
        image[size_t(kAtB + storedB(p).addressOf(n, k)) / 2] =
            bitsOf16(p, B[k][n]);
    }
    // Element i of a thread: the ISA's tables of m64nNk16.
    std::vector<uint32_t> a(size_t(threads) * 4);
    std::vector<float> c(size_t(threads) * size_t(p.n) / 2);
    for (int t = 0; t < threads; ++t) {
      for (int i = 0; i < 8; ++i) {
        int row = t / 32 % 4 * 16 + t % 32 / 4 + (i / 2 % 2) * 8;
        int k = t % 4 * 2 + i % 2 + i / 4 * 8;
        a[size_t(t * 4 + i / 2)] |= uint32_t(bitsOf16(p, A[row][k]))
                                    << 16 * (i % 2);
      }
      for (int i = 0; i < p.n / 2; ++i)
        c[size_t(t * p.n / 2 + i)] = C[rowOf(t, i)][columnOf(t, i)];
    }
    out = zeros(c.size() * 4);
    LaunchShape shape;
    shape.threads[0] = uint32_t(threads);
    return gpu.run(loadText(text(p, products, threads)), shape, upload(a),
                   upload(image), upload(c), out);
  }
  static int rowOf(int t, int i) {
    return t / 32 % 4 * 16 + t % 32 / 4 + (i / 2 % 2) * 8;
  }
  static int columnOf(int t, int i) { return i / 4 * 8 + t % 4 * 2 + i % 2; }

  void expectProduct(const Product &p, const std::string &products,
                     int times = 1) {
    SCOPED_TRACE(instruction(p));
    ASSERT_TRUE(isClean(launch(p, products)));
    auto values = download<float>(out, size_t(64 * p.n));
    for (int t = 0; t < 128; ++t)
      for (int i = 0; i < p.n / 2; ++i) {
        int row = rowOf(t, i), column = columnOf(t, i);
        float sum = p.adds ? C[row][column] : 0;
        for (int k = 0; k < 16; ++k)
          sum += float(times * p.signA * p.signB) * A[row][k] * B[k][column];
        ASSERT_EQ(values[size_t(t * p.n / 2 + i)], sum) << row << " " << column;
      }
  }
  LaunchResult faulty(std::string from, std::string to, const Product &p = {}) {
    std::string products = whole(p);
    size_t at = products.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return launch(p, products.replace(at, from.size(), to));
  }

  float A[64][16], B[16][256], C[64][256];
  uint64_t out = 0;
};

TEST_F(WarpgroupTest, ProductsOfEveryWidth) {
  for (int n = 8; n <= 256; n += 8)
    expectProduct({.n = n}, whole({.n = n}));
  Product p{.n = 40, .type = "bf16"};
  expectProduct(p, whole(p));
}

TEST_F(WarpgroupTest, EveryLayout) {
  for (int words : {1, 2, 4, 8})
    for (bool transposedB : {false, true})
      for (int n : {8, 64, 96, 256}) {
        Product p{.n = n, .wordsB = words, .transposedB = transposedB};
        expectProduct(p, whole(p));
        for (bool transposedA : {false, true}) {
          p.sharedA = true;
          p.wordsA = words;
          p.transposedA = transposedA;
          expectProduct(p, whole(p));
        }
      }
}

TEST_F(WarpgroupTest, SignsAndWithoutSums) {
  for (int signA : {1, -1})
    for (int signB : {1, -1})
      for (bool adds : {true, false}) {
        Product p{.adds = adds, .signA = signA, .signB = signB};
        expectProduct(p, whole(p));
      }
}

TEST_F(WarpgroupTest, ProductsInFlightShareSums) {
  Product p;
  std::string one = instruction(p) + "wgmma.commit_group.sync.aligned;\n";
  expectProduct(p,
                "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
                "wgmma.fence.sync.aligned;\n" +
                    one + one + "wgmma.wait_group.sync.aligned 1;\n" + one +
                    "wgmma.wait_group.sync.aligned 0;\n",
                3);
}

// In shared memory sixteen more k of a pattern of 128 bytes are 32 bytes
// further, whatever the order of its words.
TEST_F(WarpgroupTest, TilesBeginWithinAPatternAlongK) {
  Product p;
  std::string products = whole(p);
  // Everything is one word pair further: the image moves by the same exchange.
  Stored stored = storedB(p);
  for (int n = 0; n < p.n; ++n)
    for (int k = 0; k < 16; ++k)
      EXPECT_EQ((stored.addressOf(n, k) ^ 32) / 128,
                stored.addressOf(n, k) / 128);
  products.insert(0, "add.u64 %db, %db, 2;\n");
  // Words 2 and 3 of each row hold what words 0 and 1 held.
  products.insert(
      0,
      "bar.sync 0;\nmov.u32 %i, %t;\nmove:\nmul.wide.u32 %w, %i, 16;\n"
      "add.u64 %w, %w, 8192;\nld.shared.v4.u32 {%v0, %v1, %v2, %v3}, [%w];\n"
      "bar.sync 0;\nxor.b64 %w, %w, 32;\n"
      "st.shared.v4.u32 [%w], {%v0, %v1, %v2, %v3};\nbar.sync 0;\n"
      "add.u32 %i, %i, 128; setp.lt.u32 %more, %i, 512;\n@%more bra move;\n");
  expectProduct(p, products);
}

TEST_F(WarpgroupTest, RefusesWhatIsNotSupported) {
  std::string ptx = text({}, whole({}));
  auto error = [&](const std::string &from, const std::string &to) {
    std::string other = ptx;
    other.replace(other.find(from), from.size(), to);
    return gpu.load(other).status().message();
  };
  if (isOnDriver())
    GTEST_SKIP() << "a driver has other messages";
  EXPECT_THAT(error("sm_90a", "sm_90"), testing::HasSubstr("needs sm_90a"));
  EXPECT_THAT(error("m64n64k16", "m64n60k16"),
              testing::HasSubstr("not supported"));
  EXPECT_THAT(error("m64n64k16", "m64n72k16"),
              testing::HasSubstr("of 32 and 4 registers"));
  EXPECT_THAT(error("f32.f16.f16", "f16.f16.f16"),
              testing::HasSubstr("not supported"));
}

// Each of these faults is silent, or rarely visible, on silicon.
TEST_F(WarpgroupTest, FaultsAreFound) {
  if (isOnDriver())
    GTEST_SKIP() << "silicon reports none of these";
  constexpr auto kKind = FindingKind::AsyncProduct;
  EXPECT_TRUE(isClean(launch({}, whole({}))));
  EXPECT_TRUE(found(faulty("fence.proxy.async.shared::cta;\n", ""), kKind,
                    {"no fence.proxy.async"}));
  // A fence by the reader, after the barrier, is not the writer's.
  EXPECT_TRUE(found(faulty("fence.proxy.async.shared::cta;\nbar.sync 0;",
                           "bar.sync 0;\nfence.proxy.async.shared::cta;"),
                    kKind, {"no fence.proxy.async"}));
  EXPECT_TRUE(found(faulty("bar.sync 0;\n", ""), FindingKind::SharedRace));
  EXPECT_TRUE(found(faulty("wgmma.fence.sync.aligned;\n", ""), kKind,
                    {"after the last wgmma.fence"}));
  EXPECT_TRUE(found(faulty("wgmma.fence.sync.aligned;\n",
                           "wgmma.fence.sync.aligned;\nadd.u32 %a1, %a1, 0;\n"),
                    kKind, {"after the last wgmma.fence"}));
  EXPECT_TRUE(found(faulty("wgmma.wait_group.sync.aligned 0;\n", ""), kKind,
                    {"reads the sums"}));
  EXPECT_TRUE(found(faulty("wgmma.wait_group.sync.aligned 0;\n",
                           "wgmma.wait_group.sync.aligned 1;\n"),
                    kKind, {"reads the sums"}));
  EXPECT_TRUE(found(faulty("wgmma.commit_group.sync.aligned;\n", ""), kKind));
  EXPECT_TRUE(found(faulty("wgmma.wait", "mov.u32 %a2, 0;\nwgmma.wait"), kKind,
                    {"writes a register"}));
  EXPECT_TRUE(found(
      faulty("wgmma.wait", "@%some st.shared.u32 [8192], %t;\nwgmma.wait"),
      kKind, {"writes what a wgmma reads"}));
  EXPECT_TRUE(
      found(faulty("wgmma.wait",
                   "cp.async.ca.shared.global [8208], [%rm], 16;\nwgmma.wait"),
            kKind, {"writes what a wgmma reads"}));
  // After the waits of all warps, the memory is free.
  auto after = [&](const std::string &what) {
    return faulty("wgmma.wait_group.sync.aligned 0;\n",
                  "wgmma.wait_group.sync.aligned 0;\n" + what +
                      "@%some st.shared.u32 [8192], %t;\n");
  };
  EXPECT_TRUE(isClean(after("bar.sync 0;\n")));
  EXPECT_FALSE(isClean(after("")));
  EXPECT_TRUE(found(faulty("wgmma.mma", "@!%some wgmma.mma"),
                    FindingKind::DivergentWarp));
  EXPECT_TRUE(
      found(faulty("wgmma.fence", "setp.lt.u32 %some, %t, 96; @!%some exit;\n"
                                  "wgmma.fence"),
            FindingKind::DivergentWarp));
  EXPECT_TRUE(
      found(faulty("wgmma.fence", "setp.lt.u32 %some, %t, 32;\n"
                                  "@%some add.u64 %db, %db, 2;\nwgmma.fence"),
            FindingKind::DivergentWarp, {"differs from"}));
  EXPECT_TRUE(found(launch({}, whole({}), 96), FindingKind::DivergentWarp,
                    {"not whole"}));
  // Descriptors.
  EXPECT_TRUE(found(faulty("wgmma.fence", "add.u64 %db, %db, 8;\nwgmma.fence"),
                    FindingKind::Misaligned, {"within its swizzling pattern"}));
  EXPECT_TRUE(found(
      faulty("wgmma.fence", "add.u64 %db, %db, 0x100000000;\nwgmma.fence"),
      FindingKind::Misaligned, {"strides"}));
  EXPECT_TRUE(
      found(faulty("wgmma.fence", "add.u64 %db, %db, 2048;\nwgmma.fence"),
            FindingKind::OutOfBounds));
}

class WarpgroupClockTest : public WarpgroupTest {
protected:
  /// Cycles of an H100 for a block of one warpgroup with these products.
  double cyclesOf(const Product &p, const std::string &products) {
    const GpuModel &model = *findGpuModel("H100");
    const Kernel &kernel =
        loadText(text(p,
                      "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
                      "wgmma.fence.sync.aligned;\n" +
                          products + "wgmma.wait_group.sync.aligned 0;\n",
                      128, false));
    LaunchShape shape{{1, 1, 1}, {128, 1, 1}, 0};
    Recording recording(model);
    auto memory = [&](size_t words) {
      return upload(std::vector<uint32_t>(words));
    };
    size_t threads = 128;
    uint64_t a = memory(4 * threads), image = memory(kBytes / 4),
             c = memory(threads * size_t(p.n) / 2),
             d = memory(threads * size_t(p.n) / 2);
    const void *arguments[] = {&a, &image, &c, &d};
    EXPECT_TRUE(isClean(
        gpu.software().launch(kernel, shape, arguments, nullptr, &recording)));
    return softgpu::timeOf(kernel, shape, {.registers = 200}, recording).cycles;
  }
  /// Returns the cycles of each product of a warpgroup that multiplies all the
  /// time.
  double cyclesOf(const Product &p) {
    auto timeOf = [&](int times) {
      std::string products;
      for (int i = 0; i < times; ++i)
        products += instruction(p) + "wgmma.commit_group.sync.aligned;\n";
      return cyclesOf(p, products);
    };
    return (timeOf(192) - timeOf(64)) / 128;
  }
  void SetUp() override {
    if (isOnDriver())
      GTEST_SKIP() << "the clock is the software GPU's";
  }
};

// The dense peak of F16 is an m64n256k16 every 128 cycles. That products reach
// it from 64 columns on, with A from shared memory or from registers, is
// attributed to arXiv 2402.13499 and 2501.12084; their tables were not at hand
// when this was written.
TEST_F(WarpgroupClockTest, ProductsReachThePeakFrom64ColumnsOn) {
  for (bool sharedA : {false, true})
    for (int n : {64, 128, 256})
      EXPECT_NEAR(cyclesOf({.n = n, .sharedA = sharedA}), n / 2.0, 0.05 * n)
          << n << sharedA;
}
// With fewer columns, A from shared memory takes longer than the product: its
// 2048 bytes are 16 cycles, whatever the number of columns. This follows from
// 128 bytes a cycle, and explains why the peak begins at 64 columns.
TEST_F(WarpgroupClockTest, SharedMemoryBoundsFewColumns) {
  for (int n : {8, 16, 32}) {
    EXPECT_NEAR(cyclesOf({.n = n, .sharedA = true}), 16 + n / 4.0, 2) << n;
    EXPECT_NEAR(cyclesOf({.n = n}), n / 2.0, 2) << n;
  }
}
// Whoever waits for each product leaves tensor cores idle for the time until
// its sums have come.
TEST_F(WarpgroupClockTest, WaitingForEachProductCosts) {
  Product p{.n = 128};
  auto cycles = [&](int left) {
    std::string products;
    for (int i = 0; i < 64; ++i)
      products += instruction(p) + "wgmma.commit_group.sync.aligned;\n" +
                  fmt::format("wgmma.wait_group.sync.aligned {};\n", left);
    return cyclesOf(p, products);
  };
  EXPECT_GT(cycles(0) - cycles(1), 60 * findGpuModel("H100")->latency.mma);
}
// A warp goes on while eight products wait for tensor cores: 100 additions, of
// which each needs the one before it, cost nothing beside them.
TEST_F(WarpgroupClockTest, ProductsWaitInAQueue) {
  Product p{.n = 128};
  auto cycles = [&](int products, int additions) {
    std::string text;
    for (int i = 0; i < products; ++i)
      text += instruction(p);
    text += "wgmma.commit_group.sync.aligned;\n";
    for (int i = 0; i < additions; ++i)
      text += "add.u32 %i, %i, %t;\n";
    return cyclesOf(p, text);
  };
  EXPECT_LT(cycles(8, 100), cycles(8, 0) + 50);
}

} // namespace
} // namespace softgpu
