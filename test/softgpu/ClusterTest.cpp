//===- ClusterTest.cpp - Clusters, mbarriers and bulk copies --------------===//

#include "test/softgpu/Clock.h"
#include "test/softgpu/PtxTest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace softgpu {
namespace {

/// Two clusters of four blocks, of 64 threads each. In each round a block
/// copies 64 words to all blocks of its cluster, and each thread of a block
/// adds one word of each of the four.
class ClusterTest : public PtxTest {
protected:
  static constexpr int kBlocks = 8, kSize = 4, kThreads = 64, kRounds = 5;

  /// Tests put faults in by replacing `from`.
  static std::string text(const std::string &from = "",
                          const std::string &to = "") {
    std::string ptx = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
.explicitcluster
.reqnctapercluster 4, 1, 1
{
.reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .b16 %h<4>; .reg .pred %p<8>;
.shared .align 128 .b8 tile[1024];
.shared .align 8 .b8 full[16];
ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u32 %r1, [p2];
mov.u32 %r0, %tid.x; mov.u32 %r2, %ctaid.x; and.b32 %r3, %r2, 3;
mov.u32 %r10, full; mov.u32 %r11, 1024; mov.u32 %r13, 256; mov.u32 %r14, 0;
mov.u32 %r15, 1; mov.u16 %h0, 15; mov.u32 %r16, tile;
mad.lo.u32 %r12, %r3, 256, %r16;
mad.lo.u32 %r17, %r0, 4, %r16;
mad.wide.u32 %rd2, %r3, 256, %rd0;
mov.u32 %r20, 0; mov.u32 %r21, 0;
setp.ne.u32 %p0, %r0, 0;
setp.eq.u32 %p3, %r2, 5;
setp.ge.u32 %p4, %r0, 32;
@%p0 bra ready;
mbarrier.init.shared::cta.b64 [%r10], %r15;
fence.mbarrier_init.release.cluster;
ready:
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
next:
@%p0 bra issued;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], %r11;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r12], [%rd2], %r13, [%r10], %h0;
issued:
await:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], %r14;
@!%p1 bra await;
ld.shared.u32 %r30, [%r17]; ld.shared.u32 %r31, [%r17+256];
ld.shared.u32 %r32, [%r17+512]; ld.shared.u32 %r33, [%r17+768];
add.u32 %r30, %r30, %r31; add.u32 %r32, %r32, %r33;
add.u32 %r20, %r20, %r30; add.u32 %r20, %r20, %r32;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
add.u64 %rd2, %rd2, 1024; xor.b32 %r14, %r14, 1;
add.u32 %r21, %r21, 1; setp.lt.u32 %p2, %r21, %r1;
@%p2 bra next;
mad.lo.u32 %r22, %r2, 64, %r0; mad.wide.u32 %rd3, %r22, 4, %rd1;
st.global.u32 [%rd3], %r20;
ret;
}
)";
    if (!from.empty()) {
      size_t at = ptx.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      ptx.replace(at, from.size(), to);
    }
    return ptx;
  }
  static std::vector<uint32_t> input() {
    std::mt19937 random(3);
    std::vector<uint32_t> in(size_t(kRounds) * kSize * kThreads);
    for (uint32_t &x : in)
      x = uint32_t(random());
    return in;
  }
  LaunchResult launch(const std::string &ptx, uint32_t blocks = kBlocks) {
    out = zeros(size_t(kBlocks) * kThreads * 4);
    LaunchShape shape{{blocks, 1, 1}, {kThreads, 1, 1}, 0};
    return gpu.run(loadText(ptx), shape, upload(input()), out,
                   uint32_t(kRounds));
  }
  LaunchResult faulty(const std::string &from, const std::string &to) {
    return launch(text(from, to));
  }
  void expectSums() {
    std::vector<uint32_t> in = input(), expected(kThreads);
    for (size_t i = 0; i < in.size(); ++i)
      expected[i % kThreads] += in[i];
    std::vector<uint32_t> sums =
        download<uint32_t>(out, size_t(kBlocks) * kThreads);
    for (size_t i = 0; i < sums.size(); ++i)
      ASSERT_EQ(sums[i], expected[i % kThreads]) << i;
  }
  void SetUp() override { gpu.options().arch = 90; }

  uint64_t out = 0;
};

TEST_F(ClusterTest, BlocksShareWhatEachCopies) {
  EXPECT_TRUE(isClean(launch(text())));
  expectSums();
}

TEST_F(ClusterTest, EveryScheduleGivesTheSame) {
  if (isOnDriver())
    GTEST_SKIP() << "a driver has no schedules";
  for (Schedule schedule :
       {Schedule::Forward, Schedule::Reversed, Schedule::Shuffled})
    for (AsyncLanding landing :
         {AsyncLanding::Late, AsyncLanding::Early, AsyncLanding::Seeded})
      for (uint64_t seed = 1; seed < 4; ++seed) {
        gpu.options().schedule = schedule;
        gpu.options().asyncLanding = landing;
        gpu.options().seed = seed;
        ASSERT_TRUE(isClean(launch(text())));
        expectSums();
      }
}

TEST_F(ClusterTest, RefusesWhatIsNotSupported) {
  if (isOnDriver())
    GTEST_SKIP() << "a driver has other messages";
  auto error = [&](const std::string &from, const std::string &to) {
    return gpu.load(text(from, to)).status().message();
  };
  EXPECT_THAT(error(".target sm_90", ".target sm_80"),
              testing::HasSubstr("needs sm_90"));
  EXPECT_THAT(error("try_wait.parity", "try_wait"), testing::HasSubstr("b64"));
  EXPECT_THAT(error("mbarrier.arrive.expect_tx", "mbarrier.complete_tx"),
              testing::HasSubstr("complete_tx"));
  EXPECT_THAT(error(".multicast::cluster", ""),
              testing::HasSubstr("cp.async.bulk"));
  EXPECT_THAT(error("cluster.arrive.release", "cluster.arrive.relaxed"),
              testing::HasSubstr("relaxed"));
  EXPECT_THAT(error("b64 _, [%r10]", "b64 %rd9, [%r10]"),
              testing::HasSubstr("state"));
}

TEST_F(ClusterTest, GridsHaveWholeClusters) {
  EXPECT_FALSE(isClean(launch(text(), 6)));
  if (isOnDriver())
    return;
  EXPECT_TRUE(found(launch(text(), 6), FindingKind::LaunchLimit,
                    {"no multiple of its clusters of (4, 1, 1)"}));
  EXPECT_TRUE(found(faulty("cluster 4, 1, 1", "cluster 4, 4, 1"),
                    FindingKind::LaunchLimit));
}

// Each of these faults is silent, or rarely visible, on silicon, or hangs it.
TEST_F(ClusterTest, FaultsAreFound) {
  if (isOnDriver())
    GTEST_SKIP() << "silicon reports none of these";
  const std::string kArrive =
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], %r11;\n";
  const std::string kMeet = "barrier.cluster.arrive.release.aligned;\n"
                            "barrier.cluster.wait.acquire.aligned;\n";
  constexpr auto kKind = FindingKind::Mbarrier;
  // Counts.
  EXPECT_TRUE(found(faulty(kArrive, ""), FindingKind::BarrierDeadlock,
                    {"lacks 1 arrivals"}));
  EXPECT_TRUE(found(faulty("%r11, 1024", "%r11, 1040"),
                    FindingKind::BarrierDeadlock, {"and 16 bytes"}));
  EXPECT_TRUE(
      found(faulty("%r11, 1024", "%r11, 768"), FindingKind::Uninitialised));
  gpu.options().asyncLanding = AsyncLanding::Early;
  auto late = [&](const std::string &bytes) {
    std::string ptx = text(kArrive, "");
    ptx.replace(ptx.find("await:"), 0,
                kMeet +
                    "@!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, "
                    "[%r10], " +
                    bytes + ";\n");
    return launch(ptx);
  };
  EXPECT_TRUE(isClean(late("1024")));
  EXPECT_TRUE(found(late("768"), kKind, {"256 more bytes have arrived"}));
  gpu.options().asyncLanding = AsyncLanding::Late;
  EXPECT_TRUE(
      found(faulty(kArrive, kArrive + kArrive), kKind, {"more than 1 arriv"}));
  EXPECT_TRUE(found(faulty("%r15, 1;", "%r15, 0;"), kKind, {"0 arrivals"}));
  EXPECT_TRUE(found(faulty("%r15, 1;", "%r15, 2;"),
                    FindingKind::BarrierDeadlock, {"lacks 1 arrivals"}));
  // Initialisation.
  EXPECT_TRUE(found(faulty("mbarrier.init.shared::cta.b64 [%r10], %r15;", ""),
                    FindingKind::Uninitialised, {"has no mbarrier"}));
  EXPECT_TRUE(found(faulty("fence.mbarrier_init.release.cluster;", ""), kKind,
                    {"no fence.mbarrier_init"}));
  EXPECT_FALSE(isClean(faulty("ready:\n" + kMeet, "ready:\nbar.sync 0;\n")));
  // Order of copies and reads.
  const std::string kWait =
      "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], %r14;\n"
      "@!%p1 bra await;\n";
  const std::string kAdd = "add.u32 %r20, %r20, %r32;\n";
  // All copies have been issued when blocks wait.
  auto afterIssue = [&](const std::string &from, const std::string &to) {
    std::string ptx = text(from, to);
    ptx.insert(ptx.find("await:"), kMeet);
    return launch(ptx);
  };
  EXPECT_TRUE(isClean(afterIssue("", "")));
  EXPECT_TRUE(found(afterIssue(kWait, ""), FindingKind::AsyncRead));
  EXPECT_TRUE(found(faulty("xor.b32 %r14, %r14, 1", "xor.b32 %r14, %r14, 0"),
                    FindingKind::AsyncRead));
  // A warp waits, and the other reads after a barrier, or without one.
  const std::string kOne = "@%p4 bra done;\n" + kWait + "done:\n";
  EXPECT_TRUE(isClean(afterIssue(kWait, kOne + "bar.sync 0;\n")));
  EXPECT_TRUE(found(afterIssue(kWait, kOne), FindingKind::SharedRace));
  // try_wait may return without the phase being complete.
  gpu.options().asyncLanding = AsyncLanding::Seeded;
  EXPECT_TRUE(
      found(afterIssue("@!%p1 bra await;\n", ""), FindingKind::AsyncRead));
  gpu.options().asyncLanding = AsyncLanding::Late;
  // A block copies to others that may still read.
  EXPECT_FALSE(isClean(faulty(kAdd + kMeet, kAdd)));
  EXPECT_FALSE(isClean(faulty(kAdd + kMeet, kAdd + "bar.sync 0;\n")));
  EXPECT_TRUE(found(
      faulty(kAdd + kMeet, kAdd + "barrier.cluster.arrive.release.aligned;\n"
                                  "ld.shared.u32 %r34, [%r17];\n"
                                  "barrier.cluster.wait.acquire.aligned;\n"),
      FindingKind::SharedRace, {"has read"}));
  // The end of a block.
  EXPECT_TRUE(found(faulty("next:\n", "next:\n@%p3 exit;\n"),
                    FindingKind::AsyncRead, {"ends before"}));
  EXPECT_TRUE(found(
      faulty("ready:\n" + kMeet, "ready:\n" + kMeet + "@%p3 exit;\n" + kMeet),
      FindingKind::OutOfBounds, {"block 1", "has ended"}));
  // Addresses.
  constexpr auto kPlace = FindingKind::OutOfBounds,
                 kSkew = FindingKind::Misaligned;
  EXPECT_TRUE(found(faulty("%h0, 15", "%h0, 31"), kPlace, {"cluster of 4"}));
  EXPECT_TRUE(found(faulty("%h0, 15", "%h0, 0"), kPlace, {"cluster of 4"}));
  EXPECT_TRUE(found(faulty("%r13, 256", "%r13, 248"), kSkew, {"of 16"}));
  EXPECT_TRUE(found(faulty("%r16, tile;", "%r16, tile; add.u32 %r16, %r16, 8;"),
                    kSkew, {"of 16"}));
  EXPECT_TRUE(found(faulty("%r10, full;", "%r10, full; add.u32 %r10, %r10, 4;"),
                    kSkew, {"of 8"}));
  EXPECT_TRUE(found(
      faulty("%r16, tile;", "%r16, tile; add.u32 %r16, %r16, 4096;"), kPlace));
  EXPECT_TRUE(found(faulty("256, %rd0;", "4096, %rd0;"), kPlace));
  // The cluster's barrier.
  constexpr auto kMeeting = FindingKind::DivergentBarrier;
  EXPECT_TRUE(
      found(faulty(kAdd + kMeet,
                   kAdd + "barrier.cluster.arrive.release.aligned;\n" + kMeet),
            kMeeting, {"arrives again"}));
  EXPECT_TRUE(found(faulty(kAdd, kAdd + "barrier.cluster.wait.acquire."
                                        "aligned;\n"),
                    kMeeting, {"no barrier.cluster.arrive"}));
  EXPECT_TRUE(found(faulty(kAdd + "barrier", kAdd + "@%p0 barrier"), kMeeting));
  EXPECT_TRUE(
      found(faulty(kAdd + kMeet, kAdd + "@%p3 bra free;\n" + kMeet + "free:\n"),
            FindingKind::SharedRace));
}

class ClusterClockTest : public ClusterTest {
protected:
  void SetUp() override {
    ClusterTest::SetUp();
    if (isOnDriver())
      GTEST_SKIP() << "the clock is the software GPU's";
  }
  /// Cycles of an H100 for each round of 128 blocks that need four pieces of
  /// `piece` bytes each. Each copies a piece to four blocks, or (`isAlone`) all
  /// for itself.
  double cyclesOf(bool isAlone, int piece) {
    std::string ptx = text();
    auto replace = [&](const std::string &from, const std::string &to) {
      for (size_t at = 0; (at = ptx.find(from, at)) != std::string::npos;
           at += to.size())
        ptx.replace(at, from.size(), to);
    };
    replace("768", std::to_string(3 * piece));
    replace("512", std::to_string(2 * piece));
    replace("256", std::to_string(piece));
    replace("1024", std::to_string(4 * piece));
    if (isAlone) {
      replace("cluster 4, 1, 1", "cluster 1, 1, 1");
      replace("and.b32 %r3, %r2, 3", "mov.u32 %r3, 0");
      replace(fmt::format("%r13, {}", piece),
              fmt::format("%r13, {}", 4 * piece));
      replace("%h0, 15", "%h0, 1");
    }
    const Kernel &kernel = loadText(ptx);
    constexpr uint32_t kGrid = 128;
    uint64_t in = upload(std::vector<uint32_t>(32 * 8192)),
             sums = zeros(size_t(kGrid) * kThreads * 4);
    auto timeOf = [&](uint32_t rounds) {
      LaunchShape shape{{kGrid, 1, 1}, {kThreads, 1, 1}, 0};
      Recording recording(model);
      const void *arguments[] = {&in, &sums, &rounds};
      EXPECT_TRUE(isClean(gpu.software().launch(kernel, shape, arguments,
                                                nullptr, &recording)));
      LaunchTime time =
          softgpu::timeOf(kernel, shape, {.registers = 40}, recording);
      EXPECT_EQ(time.busy, 128);
      return time.cycles;
    };
    return (timeOf(30) - timeOf(10)) / 20;
  }
  const GpuModel &model = *findGpuModel("H100");
};

// L2 delivers the bytes that a cluster shares once, and each block's port all
// of them.
TEST_F(ClusterClockTest, WhatBlocksShareComesFromL2Once) {
  constexpr double kBytes = 32768;
  double l2 = model.l2Bytes * kClockConstants.l2Efficiency *
              model.multiprocessors / 128;
  double alone = cyclesOf(true, 8192), shared = cyclesOf(false, 8192);
  EXPECT_GT(alone, kBytes / l2 + model.latency.l2);
  EXPECT_LT(alone, kBytes / l2 + 3 * model.latency.l2);
  EXPECT_GT(shared, kBytes / kClockConstants.portBytes + model.latency.l2 +
                        kClockConstants.clusterCycles);
  EXPECT_LT(shared, 0.65 * alone);
  EXPECT_GE(shared - cyclesOf(false, 4096),
            kBytes / 2 / kClockConstants.portBytes);
}

// An H100 has room for 32 clusters of four blocks, not 33.
TEST_F(ClusterClockTest, ClustersStayInTheirPartOfTheGpu) {
  EXPECT_EQ(model.clustersOf(1), model.multiprocessors);
  EXPECT_EQ(model.clustersOf(2), 66);
  EXPECT_EQ(model.clustersOf(4), 32);
  EXPECT_EQ(model.clustersOf(8), 16);
}

} // namespace
} // namespace softgpu
