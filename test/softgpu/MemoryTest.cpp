//===- MemoryTest.cpp - Loads, stores, atomics, copies, counters ----------===//

#include "test/softgpu/PtxTest.h"

#include <fmt/format.h>
#include <numeric>
#include <set>

namespace softgpu {
namespace {

class MemoryTest : public PtxTest {
protected:
  static LaunchShape threads(uint32_t count, uint32_t blocks = 1,
                             uint32_t shared = 0) {
    return {{blocks, 1, 1}, {count, 1, 1}, shared};
  }
  /// %r0: thread, %rd0 to %rd3: parameters.
  static std::string start() {
    return "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, "
           "[p1];"
           "ld.param.u64 %rd2, [p2]; ld.param.u64 %rd3, [p3];\n";
  }
};

TEST_F(MemoryTest, NarrowLoadsExtend) {
  Widths wide{64, 32};
  expectBits("ld.global.s8 %r8, [%rd2]; cvt.s64.s32 %d, %r8;", wide,
             [](auto &x) { return uint64_t(int64_t(int8_t(x.a))); });
  expectBits("ld.global.u8 %d, [%rd2+1];", wide,
             [](auto &x) { return x.a >> 8 & 255; });
  expectBits("ld.global.s16 %d, [%rd2+2];", wide,
             [](auto &x) { return uint64_t(int64_t(int16_t(x.a >> 16))); });
  expectBits("ld.global.s32 %d, [%rd2];", wide,
             [](auto &x) { return uint64_t(int64_t(int32_t(x.a))); });
  const Kernel &k = kernel("ld.param.u64 %rd0, [p0]; ld.param.s32 %rd1, [p1+4];"
                           "st.global.u64 [%rd0], %rd1;",
                           2);
  uint64_t out = zeros(8), value = 0xFFFFFFFE00000007;
  ASSERT_TRUE(isClean(gpu.run(k, {}, out, value)));
  EXPECT_EQ(download<int64_t>(out, 1)[0], -2);
}

TEST_F(MemoryTest, EverySpaceAndVector) {
  const Kernel &k = kernel(start() + R"(
    .local .align 16 .b8 own[32]; .shared .align 16 .b8 tile[2048];
    mad.wide.u32 %rd4, %r0, 16, %rd0;
    ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%r1, %r2, %r3, %r4}, [%rd4];
    mov.u64 %rd5, own; st.local.v4.u32 [%rd5+16], {%r4, %r3, %r2, %r1};
    cvta.local.u64 %rd6, %rd5; ld.v2.u64 {%rd7, %rd8}, [%rd6+16];
    mov.u32 %r5, tile; mad.lo.u32 %r6, %r0, 16, %r5;
    st.shared.v2.b64 [%r6], {%rd7, %rd8};
    bar.sync 0;
    xor.b32 %r7, %r0, 1; mad.lo.u32 %r7, %r7, 16, %r5; cvt.u64.u32 %rd9, %r7;
    cvta.shared.u64 %rd9, %rd9; isspacep.shared %p1, %rd9; isspacep.global %p2, %rd9;
    ld.v4.f32 {%f1, %f2, %f3, %f4}, [%rd9];
    mad.wide.u32 %rd10, %r0, 24, %rd1;
    st.global.cs.v2.f32 [%rd10], {%f1, %f2}; st.global.wt.f32 [%rd10+8], %f3;
    cvta.to.global.u64 %rd10, %rd10; st.f32 [%rd10+12], %f4;
    selp.u32 %r8, 1, 0, %p1; selp.u32 %r9, 1, 0, %p2; st.global.v2.u32 [%rd10+16], {%r8, %r9};)");
  std::vector<uint32_t> in(256);
  std::iota(in.begin(), in.end(), 1000);
  uint64_t out = zeros(64 * 24), none = 0;
  ASSERT_TRUE(isClean(gpu.run(k, threads(64), upload(in), out, none, none)));
  auto values = download<uint32_t>(out, 64 * 6);
  for (uint32_t i = 0; i < 64; ++i) {
    for (uint32_t j = 0; j < 4; ++j)
      EXPECT_EQ(values[i * 6 + j], 1000 + (i ^ 1) * 4 + 3 - j);
    EXPECT_EQ(values[i * 6 + 4], 1u);
    EXPECT_EQ(values[i * 6 + 5], 0u);
  }
}

TEST_F(MemoryTest, DynamicSharedFollowsStatic) {
  const Kernel &k = kernel(start() + R"(
    .shared .align 4 .b8 fixed[20];
    mov.u32 %r1, fixed; mov.u32 %r2, dynamic; mov.u32 %r3, %dynamic_smem_size;
    st.global.v4.u32 [%rd0], {%r1, %r2, %r3, %r3};)",
                           4, 80, ".extern .shared .align 16 .b8 dynamic[];");
  uint64_t out = zeros(16), none = 0;
  ASSERT_TRUE(isClean(gpu.run(k, threads(1, 1, 64), out, none, none, none)));
  auto values = download<uint32_t>(out, 3);
  // The allocator reserves some bytes at 0.
  EXPECT_EQ(values[1] - values[0], 32u);
  EXPECT_EQ(values[2], 64u);
}

TEST_F(MemoryTest, TensorsLargerThanTheMachine) {
  if (isOnDriver())
    GTEST_SKIP() << "a driver's GPU has only its real memory";
  uint64_t bytes = uint64_t(380) << 30;
  uint64_t tensor = gpu.memory().allocate(bytes, "experts"), none = 0;
  EXPECT_GE(tensor, uint64_t(1) << 40);
  const Kernel &k = kernel(
      start() + "mul.wide.u32 %rd4, %r0, 2147483648; add.u64 %rd5, %rd0, %rd4;"
                "st.global.u32 [%rd5], %r0; ld.global.u32 %r1, [%rd5+0];");
  EXPECT_TRUE(isClean(gpu.run(k, threads(160), tensor, none, none, none)));
  // A 32-bit index wraps to a negative offset, which is in no allocation.
  const Kernel &wraps = kernel(
      start() + "mul.lo.s32 %r2, %r0, -2147483648; cvt.s64.s32 %rd4, %r2;"
                "add.u64 %rd5, %rd0, %rd4; st.global.u32 [%rd5], %r0;");
  EXPECT_TRUE(found(gpu.run(wraps, threads(2), tensor, none, none, none),
                    FindingKind::OutOfBounds, {"before 'experts'"}));
  EXPECT_TRUE(gpu.memory().free(tensor));
}

TEST_F(MemoryTest, Atomics) {
  if (isOnDriver())
    GTEST_SKIP() << "a driver's GPU chooses the order of lanes: see SweepTest";
  struct {
    const char *op;
    uint32_t start;
    std::function<uint32_t(uint32_t, uint32_t)> step;
  } kOps[] = {
      {"add.u32", 5, [](uint32_t o, uint32_t x) { return o + x; }},
      {"min.s32", 7,
       [](uint32_t o, uint32_t x) {
         return uint32_t(std::min(int32_t(o), int32_t(x)));
       }},
      {"max.u32", 7, [](uint32_t o, uint32_t x) { return std::max(o, x); }},
      {"and.b32", ~0u, [](uint32_t o, uint32_t x) { return o & x; }},
      {"or.b32", 0, [](uint32_t o, uint32_t x) { return o | x; }},
      {"xor.b32", 1, [](uint32_t o, uint32_t x) { return o ^ x; }},
      {"exch.b32", 1, [](uint32_t, uint32_t x) { return x; }},
      {"inc.u32", 3, [](uint32_t o, uint32_t x) { return o >= x ? 0 : o + 1; }},
      {"dec.u32", 3,
       [](uint32_t o, uint32_t x) { return o == 0 || o > x ? x : o - 1; }}};
  for (auto &c : kOps)
    for (bool shared : {false, true}) {
      std::string text = start() +
                         ".shared .align 4 .u32 cell; mov.u32 %r1, cell; "
                         "setp.eq.u32 %p0, %r0, 0; mul.lo.u32 %r2, %r0, 77; "
                         "add.u32 %r2, %r2, 9;";
      if (shared)
        text += fmt::format(
            "@%p0 st.shared.u32 [%r1], {}; bar.sync 0; "
            "atom.shared.{} %r3, [%r1], %r2; bar.sync 0;"
            "@%p0 ld.shared.u32 %r4, [%r1]; @%p0 st.global.u32 [%rd1], %r4;",
            int32_t(c.start), c.op);
      else
        text += fmt::format("atom.global.{} %r3, [%rd1], %r2;", c.op);
      text += "mad.wide.u32 %rd4, %r0, 4, %rd0; st.global.u32 [%rd4], %r3;";
      uint64_t olds = zeros(128), cell = upload(std::vector<uint32_t>{c.start}),
               none = 0;
      ASSERT_TRUE(
          isClean(gpu.run(kernel(text), threads(32), olds, cell, none, none)))
          << c.op;
      uint32_t value = c.start;
      auto seen = download<uint32_t>(olds, 32);
      for (uint32_t i = 0; i < 32; ++i) {
        EXPECT_EQ(seen[i], value) << c.op;
        value = c.step(value, i * 77 + 9);
      }
      EXPECT_EQ(download<uint32_t>(cell, 1)[0], value) << c.op;
    }
}

TEST_F(MemoryTest, AtomicsOfOtherTypes) {
  uint64_t cells = upload(std::vector<uint64_t>{0, 0, 0, 5}), none = 0;
  const Kernel &k = kernel(start() + R"(
    cvt.rn.f32.u32 %f0, %r0; red.global.add.f32 [%rd0], %f0;
    red.relaxed.gpu.global.add.u64 [%rd0+8], 4294967297;
    mov.b32 %r1, 0x3C003800; red.global.add.noftz.f16x2 [%rd0+16], %r1;
    mov.u32 %r3, 3; setp.eq.u32 %p0, %r0, 7; cvt.u64.u32 %rd5, %r0;
    @%p0 atom.cas.b64 %rd4, [%rd0+24], 5, %rd5;)");
  ASSERT_TRUE(isClean(gpu.run(k, threads(32), cells, none, none, none)));
  EXPECT_EQ(download<float>(cells, 1)[0], 496.0f);
  auto words = download<uint64_t>(cells, 4);
  EXPECT_EQ(words[1], 32u * 4294967297u);
  EXPECT_EQ(words[2], 0x50004C00u); // F16 numbers 32 and 16.
  EXPECT_EQ(words[3], 7u);
}

TEST_F(MemoryTest, AsyncCopiesLandWithTheirGroup) {
  // There are two groups, and only the first is waited for. Bytes past the
  // source are zero.
  const Kernel &k = kernel(start() + R"(
    .shared .align 16 .b8 tile[2048];
    mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 32, %r1; mad.wide.u32 %rd4, %r0, 32, %rd0;
    setp.eq.u32 %p0, %r0, 3; selp.u32 %r3, 4, 16, %p0;
    cp.async.cg.shared.global [%r2], [%rd4], 16;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r2+16], [%rd4+16], 16, %r3;
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.u32 %r4, [%r2+4];
    cp.async.wait_all;
    ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2+16];
    mad.wide.u32 %rd5, %r0, 16, %rd1; st.global.v4.u32 [%rd5], {%r4, %r5, %r7, %r8};)");
  std::vector<uint32_t> in(512);
  std::iota(in.begin(), in.end(), 1);
  for (AsyncLanding landing :
       {AsyncLanding::Late, AsyncLanding::Early, AsyncLanding::Seeded}) {
    gpu.options().asyncLanding = landing;
    uint64_t out = zeros(64 * 16), none = 0;
    LaunchResult result = gpu.run(k, threads(64), upload(in), out, none, none);
    ASSERT_TRUE(isClean(result));
    auto values = download<uint32_t>(out, 256);
    for (uint32_t i = 0; i < 64; ++i) {
      EXPECT_EQ(values[i * 4], i * 8 + 2);
      EXPECT_EQ(values[i * 4 + 1], i * 8 + 5);
      EXPECT_EQ(values[i * 4 + 3], i == 3 ? 0 : i * 8 + 8);
    }
  }
}

TEST_F(MemoryTest, BlocksRunInAnyOrder) {
  if (isOnDriver())
    GTEST_SKIP() << "a driver's GPU chooses the order of blocks";
  // Each block records its place in the order.
  const Kernel &k = kernel(start() + R"(
    atom.global.add.u32 %r1, [%rd0], 1; mov.u32 %r2, %ctaid.x;
    mad.wide.u32 %rd4, %r1, 4, %rd1; st.global.u32 [%rd4], %r2;)");
  std::set<std::vector<uint32_t>> orders;
  for (auto [schedule, seed] : {std::pair{Schedule::Forward, 1},
                                {Schedule::Reversed, 1},
                                {Schedule::Shuffled, 1},
                                {Schedule::Shuffled, 2}}) {
    gpu.options().schedule = schedule;
    gpu.options().seed = uint64_t(seed);
    uint64_t counter = zeros(4), out = zeros(64), none = 0;
    ASSERT_TRUE(isClean(gpu.run(k, threads(1, 16), counter, out, none, none)));
    auto order = download<uint32_t>(out, 16);
    EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), 16u);
    EXPECT_EQ(order[0], schedule == Schedule::Forward    ? 0u
                        : schedule == Schedule::Reversed ? 15u
                                                         : order[0]);
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 4u);
}

TEST_F(MemoryTest, BlocksThatWaitForLaterOnesMakeProgress) {
  const Kernel &k = kernel(start() + R"(
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 3; @%p0 bra SET;
    WAIT: ld.acquire.gpu.global.u32 %r2, [%rd0]; setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT;
    bra END;
    SET: st.release.gpu.global.u32 [%rd0], 1; END:)");
  uint64_t flag = zeros(4), none = 0;
  EXPECT_TRUE(isClean(gpu.run(k, threads(1, 4), flag, none, none, none)));
}

TEST_F(MemoryTest, BarriersReduceAndCount) {
  const Kernel &k = kernel(start() + R"(
    setp.lt.u32 %p0, %r0, 10;
    bar.red.popc.u32 %r1, 0, %p0; bar.red.and.pred %p1, 0, %p0; bar.red.or.pred %p2, 0, !%p0;
    selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 1, 0, %p2;
    setp.lt.u32 %p3, %r0, 32; @%p3 bar.sync 1, 64; @!%p3 bar.arrive 1, 64;
    mad.wide.u32 %rd4, %r0, 12, %rd0; st.global.u32 [%rd4], %r1;
    st.global.u32 [%rd4+4], %r2; st.global.u32 [%rd4+8], %r3;)");
  uint64_t out = zeros(64 * 12), none = 0;
  LaunchResult result = gpu.run(k, threads(64), out, none, none, none);
  ASSERT_TRUE(isClean(result));
  auto values = download<uint32_t>(out, 192);
  EXPECT_EQ(values[3 * 50], 10u);
  EXPECT_EQ(values[3 * 50 + 1], 0u);
  EXPECT_EQ(values[3 * 50 + 2], 1u);
  EXPECT_EQ(result.counters[OpClass::Barrier], isOnDriver() ? 0u : 8u);
}

TEST_F(MemoryTest, SectorsAreCounted) {
  if (isOnDriver())
    GTEST_SKIP() << "no counters";
  auto traffic = [&](const std::string &address, const std::string &load) {
    const Kernel &k = kernel(start() + address + load);
    uint64_t in = zeros(1 << 16), none = 0;
    LaunchResult result = gpu.run(k, threads(32), in, none, none, none);
    EXPECT_TRUE(isClean(result));
    return result.counters.globalLoads;
  };
  auto coalesced =
      traffic("mad.wide.u32 %rd4, %r0, 4, %rd0;", "ld.global.u32 %r1, [%rd4];");
  EXPECT_EQ(coalesced.sectors, 4u);
  EXPECT_EQ(coalesced.usefulBytes, 128u);
  auto shifted = traffic("mad.wide.u32 %rd4, %r0, 4, %rd0;",
                         "ld.global.u32 %r1, [%rd4+4];");
  EXPECT_EQ(shifted.sectors, 5u);
  auto strided = traffic("mad.wide.u32 %rd4, %r0, 128, %rd0;",
                         "ld.global.u32 %r1, [%rd4];");
  EXPECT_EQ(strided.sectors, 32u);
  EXPECT_DOUBLE_EQ(strided.movedOverUseful(), 8.0);
  auto same = traffic("", "ld.global.u32 %r1, [%rd0];");
  EXPECT_EQ(same.sectors, 1u);
  EXPECT_EQ(same.usefulBytes, 4u);
  auto backward =
      traffic("sub.u32 %r2, 31, %r0; mad.wide.u32 %rd4, %r2, 16, %rd0;",
              "ld.global.v4.u32 {%r3,%r4,%r5,%r6}, [%rd4];");
  EXPECT_EQ(backward.sectors, 16u);
  EXPECT_EQ(backward.usefulBytes, 512u);
}

// Each of three blocks reads the same 128 bytes twice, and sixteen bytes of its
// own.
TEST_F(MemoryTest, BlocksSectorsAreCountedOnce) {
  if (isOnDriver())
    GTEST_SKIP() << "no counters";
  const Kernel &k = kernel(start() + R"(
      mad.wide.u32 %rd4, %r0, 4, %rd0;
      ld.global.u32 %r1, [%rd4]; ld.global.u32 %r1, [%rd4];
      mov.u32 %r2, %ctaid.x; mad.wide.u32 %rd5, %r2, 32, %rd1;
      ld.global.v4.u32 {%r3,%r4,%r5,%r6}, [%rd5+16];)");
  uint64_t in = zeros(128), own = zeros(96), none = 0;
  const void *arguments[] = {&in, &own, &none, &none};
  SoftGpu &soft = gpu.software();
  AccessedRanges touched;
  LaunchShape shape = threads(32);
  shape.grid[0] = 3;
  EXPECT_TRUE(isClean(soft.launch(k, shape, arguments, &touched)));
  EXPECT_EQ(touched.blockSectors, 0u);
  touched = {};
  touched.wantsSectors = true;
  EXPECT_TRUE(isClean(soft.launch(k, shape, arguments, &touched)));
  EXPECT_EQ(touched.blockSectors, 15u);
}

TEST_F(MemoryTest, BankConflictsAreCounted) {
  if (isOnDriver())
    GTEST_SKIP() << "no counters";
  auto banks = [&](int stride, const std::string &store) {
    const Kernel &k = kernel(start() +
                             fmt::format(R"(
      .shared .align 16 .b8 tile[16384];
      mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, {}, %r1;)",
                                         stride) +
                             store);
    uint64_t none = 0;
    LaunchResult result = gpu.run(k, threads(32), none, none, none, none);
    EXPECT_TRUE(isClean(result));
    return result.counters.sharedStores;
  };
  std::string word = "st.shared.u32 [%r2], %r0;";
  std::string four = "st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};";
  EXPECT_EQ(banks(4, word).wavefronts, 1u);
  EXPECT_EQ(banks(8, word).wavefronts, 2u);
  EXPECT_EQ(banks(128, word).wavefronts, 32u);
  EXPECT_EQ(banks(132, word).wavefronts, 1u); // Rows are padded by one word.
  EXPECT_EQ(banks(16, four).wavefronts, 4u);
  EXPECT_EQ(banks(16, four).conflicts(), 0u);
  EXPECT_EQ(banks(32, four).wavefronts, 8u);
  EXPECT_EQ(banks(128, four).conflicts(), 28u);
  // Eight lanes at a time: each eight use four banks of their own.
  std::string eights = "and.b32 %r3, %r0, 7; shr.u32 %r4, %r0, 3;"
                       "mad.lo.u32 %r2, %r3, 128, %r1;"
                       "mad.lo.u32 %r2, %r4, 16, %r2;";
  EXPECT_EQ(banks(4, eights + four).wavefronts, 32u);
}

} // namespace
} // namespace softgpu
