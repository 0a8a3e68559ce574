//===- CollectiveTest.cpp - Instructions of a whole warp ------------------===//
//
// Compares shfl with the ISA's pseudo-code. The interpretation of c (clamp and
// segment) is also compared with what CUDA's headers pass for widths
// (sm_30_intrinsics.hpp: c = ((32 - width) << 8) | 0x1f, and without 0x1f for
// up).
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/PtxTest.h"

#include <fmt/format.h>

namespace softgpu {
namespace {

class CollectiveTest : public PtxTest {
protected:
  /// Runs `body` in one warp; %r0 is the lane, %r1 its input, %r2 its output.
  std::vector<uint32_t> warp(const std::string &body,
                             const std::vector<uint32_t> &inputs,
                             uint32_t threads = 32) {
    const Kernel &k = kernel(R"(
      ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %laneid;
      mad.wide.u32 %rd2, %r0, 4, %rd0; mad.wide.u32 %rd3, %r0, 4, %rd1;
      ld.global.u32 %r1, [%rd2];
      )" + body + "\nst.global.u32 [%rd3], %r2;",
                             2, 90);
    uint64_t in = upload(inputs), out = zeros(128);
    LaunchShape shape;
    shape.threads[0] = threads;
    EXPECT_TRUE(isClean(gpu.run(k, shape, in, out))) << body;
    return download<uint32_t>(out, 32);
  }
  static std::vector<uint32_t> values() {
    std::vector<uint32_t> out(32);
    for (uint32_t i = 0; i < 32; ++i)
      out[i] = i * i * 7919 % 100 + 1000 * (i % 5);
    return out;
  }
};

TEST_F(CollectiveTest, ShufflesByWidth) {
  auto in = values();
  for (int width : {32, 16, 8, 4})
    for (int by : {0, 1, 3, 7}) {
      int segment = (32 - width) << 8;
      auto expect = [&](const char *mode, int c, auto source) {
        auto out =
            warp(fmt::format("shfl.sync.{}.b32 %r2|%p1, %r1, {}, {}, -1;", mode,
                             by, c),
                 in);
        for (int lane = 0; lane < 32; ++lane)
          EXPECT_EQ(out[lane], in[source(lane)])
              << mode << " " << width << " " << by << " " << lane;
      };
      // CUDA's __shfl_*_sync: a lane whose source is outside the segment keeps
      // its own.
      expect("up", segment,
             [&](int l) { return l % width >= by ? l - by : l; });
      expect("down", segment | 31,
             [&](int l) { return l % width + by < width ? l + by : l; });
      // Earlier segments may be read, later ones not (CUDA programming
      // guide, 10.22).
      expect("bfly", segment | 31,
             [&](int l) { return (l ^ by) / width <= l / width ? l ^ by : l; });
      expect("idx", segment | 31,
             [&](int l) { return l / width * width + by % width; });
    }
  auto out = warp(
      "shfl.sync.down.b32 %r3|%p1, %r1, 4, 31, -1; selp.u32 %r2, 1, 0, %p1;",
      in);
  for (int lane = 0; lane < 32; ++lane)
    EXPECT_EQ(out[lane], uint32_t(lane < 28));
}

TEST_F(CollectiveTest, VotesAndMatches) {
  auto in = values();
  uint32_t odd = 0;
  for (int i = 0; i < 32; ++i)
    odd |= (in[i] & 1) << i;
  std::string test = "and.b32 %r3, %r1, 1; setp.ne.u32 %p1, %r3, 0;";
  EXPECT_EQ(warp(test + "vote.sync.ballot.b32 %r2, %p1, -1;", in)[3], odd);
  EXPECT_EQ(warp(test + "vote.sync.ballot.b32 %r2, !%p1, -1;", in)[3], ~odd);
  EXPECT_EQ(
      warp(test + "vote.sync.any.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;",
           in)[0],
      1u);
  EXPECT_EQ(
      warp(test + "vote.sync.all.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;",
           in)[0],
      0u);
  EXPECT_EQ(
      warp(test + "vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2;",
           in)[0],
      0u);
  std::vector<uint32_t> classes(32);
  for (uint32_t i = 0; i < 32; ++i)
    classes[i] = i % 3;
  auto any = warp("match.any.sync.b32 %r2, %r1, -1;", classes);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t other = 0; other < 32; ++other)
      EXPECT_EQ(any[lane] >> other & 1, uint32_t(lane % 3 == other % 3));
  EXPECT_EQ(warp("match.all.sync.b32 %r2|%p1, %r1, -1;", classes)[0], 0u);
  EXPECT_EQ(warp("match.all.sync.b32 %r2|%p1, %r1, -1;",
                 std::vector<uint32_t>(32, 5))[9],
            ~0u);
  EXPECT_EQ(warp("activemask.b32 %r2;", in)[0], ~0u);
  EXPECT_EQ(warp("elect.sync %r2|%p1, -1;", in)[9], 0u);
  // In a block of 20 threads the missing lanes may be named.
  EXPECT_EQ(warp(test + "vote.sync.ballot.b32 %r2, %p1, -1;", in, 20)[0],
            odd & 0xFFFFF);
}

TEST_F(CollectiveTest, Reductions) {
  auto in = values();
  in[4] = 0xFFFFFFF0;
  uint32_t sum = 0, all = ~0u, any = 0, odd = 0, least = ~0u, most = 0;
  int32_t smallest = INT32_MAX;
  for (uint32_t x : in) {
    sum += x, all &= x, any |= x, odd ^= x;
    least = std::min(least, x), most = std::max(most, x),
    smallest = std::min(smallest, int32_t(x));
  }
  auto redux = [&](const char *op) {
    return warp(fmt::format("redux.sync.{} %r2, %r1, -1;", op), in)[17];
  };
  EXPECT_EQ(redux("add.u32"), sum);
  EXPECT_EQ(redux("min.u32"), least);
  EXPECT_EQ(redux("max.u32"), most);
  EXPECT_EQ(redux("min.s32"), uint32_t(smallest));
  EXPECT_EQ(redux("and.b32"), all);
  EXPECT_EQ(redux("or.b32"), any);
  EXPECT_EQ(redux("xor.b32"), odd);
}

TEST_F(CollectiveTest, DivergenceReconverges) {
  // Each lane loops a different number of times; then all lanes reconverge and
  // execute one shuffle together.
  auto out = warp(R"(
    mov.u32 %r2, 0; mov.u32 %r3, 0;
    LOOP: setp.ge.u32 %p1, %r3, %r0; @%p1 bra DONE;
    add.u32 %r3, %r3, 1; add.u32 %r2, %r2, %r3; bra LOOP;
    DONE: shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; add.u32 %r2, %r2, %r4;)",
                  values());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t other = lane ^ 1;
    EXPECT_EQ(out[lane], lane * (lane + 1) / 2 + other * (other + 1) / 2);
  }
}

TEST_F(CollectiveTest, IndexedBranches) {
  auto out = warp(R"(
    and.b32 %r3, %r0, 3;
    T: .branchtargets A, B, C, B;
    brx.idx %r3, T;
    A: mov.u32 %r2, 10; bra.uni END;
    B: mov.u32 %r2, 20; bra.uni END;
    C: mov.u32 %r2, 30;
    END:)",
                  values());
  const uint32_t want[] = {10, 20, 30, 20};
  for (int lane = 0; lane < 32; ++lane)
    EXPECT_EQ(out[lane], want[lane & 3]);
}

TEST_F(CollectiveTest, LanesThatWaitForOthersMakeProgress) {
  // Lane 0 spins at a lower program counter than the lane that it waits for.
  const Kernel &k = kernel(R"(
    .shared .align 4 .u32 flag;
    mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0;
    mov.u32 %r1, flag; @!%p0 st.volatile.shared.u32 [%r1], 0;
    bar.sync 0;
    @%p0 bra SET;
    WAIT: ld.volatile.shared.u32 %r2, [%r1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT;
    bra END;
    SET: setp.eq.u32 %p2, %r0, 5; @%p2 st.volatile.shared.u32 [%r1], 1;
    END:)",
                           0);
  LaunchShape shape;
  shape.threads[0] = 32;
  EXPECT_TRUE(isClean(gpu.launch(k, shape, {})));
}

TEST_F(CollectiveTest, SpecialRegisters) {
  std::string body =
      "ld.param.u64 %rd0, [p0]; mov.u32 %r9, %tid.x; mov.u32 %r8, %tid.y;"
      "mad.lo.u32 %r9, %r8, 8, %r9; mov.u32 %r8, %ctaid.y;"
      "mad.lo.u32 %r9, %r8, 40, %r9; mad.wide.u32 %rd0, %r9, 64, %rd0;\n";
  const char *names[] = {"%tid.x",       "%tid.y",
                         "%tid.z",       "%ntid.x",
                         "%ntid.y",      "%ctaid.x",
                         "%ctaid.y",     "%nctaid.x",
                         "%nctaid.y",    "%laneid",
                         "%warpid",      "%lanemask_lt",
                         "%lanemask_ge", "%dynamic_smem_size",
                         "%nwarpid"};
  int at = 0;
  for (const char *name : names)
    body += fmt::format("mov.u32 %r0, {}; st.global.u32 [%rd0+{}], %r0;\n",
                        name, 4 * at++);
  const Kernel &k = kernel(body, 1);
  uint64_t out = zeros(80 * 64);
  LaunchShape shape{{1, 2, 1}, {8, 5, 1}, 48};
  ASSERT_TRUE(isClean(gpu.run(k, shape, out)));
  auto values = download<uint32_t>(out, 80 * 16);
  for (uint32_t thread = 0; thread < 80; ++thread) {
    uint32_t t = thread % 40, lane = t % 32;
    const uint32_t want[] = {t % 8,
                             t / 8,
                             0,
                             8,
                             5,
                             0,
                             thread / 40,
                             1,
                             2,
                             lane,
                             t / 32,
                             (1u << lane) - 1,
                             ~((1u << lane) - 1),
                             48,
                             64}; // Warps of an H100's multiprocessor.
    for (int i = 0; i < 15; ++i)
      EXPECT_EQ(values[thread * 16 + i], want[i])
          << names[i] << " of thread " << thread;
  }
}

} // namespace
} // namespace softgpu
