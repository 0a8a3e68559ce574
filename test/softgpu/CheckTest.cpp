//===- CheckTest.cpp - Each check finds its fault, and only that ----------===//
//
// Each faulty kernel has a correct twin that differs only in what fixes the
// fault.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/PtxTest.h"

#include <fmt/format.h>

namespace softgpu {
namespace {

class CheckTest : public PtxTest {
protected:
  void SetUp() override {
    if (isOnDriver())
      GTEST_SKIP() << "a driver's GPU has no checks";
  }
  static std::string start() {
    return "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, "
           "[p1];\n"
           "mov.u32 %r90, %ctaid.x; mad.wide.u32 %rd90, %r0, 4, %rd0;\n";
  }
  LaunchResult run(const std::string &body, uint64_t a = 0, uint64_t b = 0,
                   uint32_t threads = 64, uint32_t blocks = 1,
                   const std::string &globals = "") {
    LaunchShape shape{{blocks, 1, 1}, {threads, 1, 1}, 0};
    return gpu.run(kernel(start() + body, 2, 90, globals), shape, a, b);
  }
  static std::string shared() {
    return ".shared .align 16 .b8 tile[1024]; mov.u32 %r1, tile; mad.lo.u32 "
           "%r2, %r0, 4, %r1;"
           "xor.b32 %r91, %r0, 33; mad.lo.u32 %r3, %r91, 4, %r1;\n";
  }
};

TEST_F(CheckTest, Bounds) {
  uint64_t x = upload(std::vector<uint32_t>(64), "x");
  EXPECT_TRUE(isClean(run("ld.global.u32 %r1, [%rd90];", x)));
  EXPECT_TRUE(found(run("ld.global.u32 %r1, [%rd90+4];", x),
                    FindingKind::OutOfBounds,
                    {"kernel 'k', PTX line 11", "ld.global.u32",
                     "block (0, 0, 0) thread (63, 0, 0)",
                     "0 bytes past the end of 'x' (256 bytes"}));
  EXPECT_TRUE(found(run("st.global.u32 [%rd90+-8], %r0;", x),
                    FindingKind::OutOfBounds,
                    {"writes 4 bytes", "8 bytes before 'x'"}));
  // Half of the access is inside.
  uint64_t odd = upload(std::vector<uint32_t>(63), "odd");
  EXPECT_TRUE(found(run("ld.global.u64 %rd5, [%rd0+248];", odd),
                    FindingKind::OutOfBounds, {"byte 248 of 'odd'"}));
  EXPECT_TRUE(found(run("ld.global.u32 %r1, [64];"), FindingKind::OutOfBounds));
  EXPECT_TRUE(isClean(run("prefetch.global.L2 [%rd90];", x)));
  EXPECT_TRUE(found(run("prefetch.global.L2 [%rd90+4];", x),
                    FindingKind::OutOfBounds,
                    {"prefetches 0 bytes past the end of 'x'"}));
  EXPECT_TRUE(found(run(shared() + "st.shared.u32 [%r2+1000], %r0;"),
                    FindingKind::OutOfBounds,
                    {"of 1024 bytes of shared memory"}));
  EXPECT_TRUE(isClean(run(shared() + "st.shared.u32 [%r2+768], %r0;")));
  EXPECT_TRUE(
      found(run(".local .align 4 .b8 own[16]; st.local.u32 [own+16], %r0;"),
            FindingKind::OutOfBounds, {"local memory"}));
  EXPECT_TRUE(found(run("ld.const.u32 %r1, [t+8];", 0, 0, 1, 1,
                        ".const .align 4 .u32 t[2] = {1, 2};"),
                    FindingKind::OutOfBounds, {"'t'"}));
}

TEST_F(CheckTest, AHostPointerIsNotADeviceAddress) {
  std::vector<uint32_t> host(64);
  EXPECT_TRUE(found(run("ld.global.u32 %r1, [%rd90];",
                        reinterpret_cast<uint64_t>(host.data())),
                    FindingKind::OutOfBounds));
}

TEST_F(CheckTest, UseAfterFree) {
  uint64_t x = upload(std::vector<uint32_t>(64), "x");
  EXPECT_TRUE(gpu.memory().free(x));
  EXPECT_FALSE(gpu.memory().free(x));
  EXPECT_TRUE(found(run("ld.global.u32 %r1, [%rd90];", x),
                    FindingKind::UseAfterFree, {"freed 'x'"}));
}

TEST_F(CheckTest, Alignment) {
  uint64_t x = upload(std::vector<uint32_t>(128), "x");
  EXPECT_TRUE(isClean(run("ld.global.v2.u32 {%r1, %r2}, [%rd90+8];", x, 0, 1)));
  EXPECT_TRUE(found(run("ld.global.v2.u32 {%r1, %r2}, [%rd90+8];", x),
                    FindingKind::Misaligned,
                    {"thread (1, 0, 0)", "not a multiple of 8"}));
  EXPECT_TRUE(found(run(shared() + "st.shared.u16 [%r2+1], %r0;", 0, 0, 1),
                    FindingKind::Misaligned));
}

TEST_F(CheckTest, UninitialisedMemory) {
  uint64_t fresh = gpu.memory().allocate(256, "fresh");
  EXPECT_TRUE(found(run("ld.global.u32 %r1, [%rd90];", fresh),
                    FindingKind::Uninitialised, {"byte 0 of 'fresh'"}));
  EXPECT_TRUE(isClean(
      run("st.global.u32 [%rd90], %r0; ld.global.u32 %r1, [%rd90];", fresh)));
  EXPECT_TRUE(found(run(shared() + "ld.shared.u32 %r4, [%r2];"),
                    FindingKind::Uninitialised));
  EXPECT_TRUE(isClean(
      run(shared() + "st.shared.u32 [%r2], %r0; ld.shared.u32 %r4, [%r2];")));
  // Data that an earlier block left in shared memory does not count as written.
  EXPECT_TRUE(found(
      run(shared() + "setp.eq.u32 %p0, %r90, 0; @%p0 st.shared.u32 [%r2], %r0;"
                     "ld.shared.u32 %r4, [%r2];",
          0, 0, 32, 2),
      FindingKind::Uninitialised, {"block (1, 0, 0)"}));
  EXPECT_TRUE(found(run(".local .align 4 .b8 own[8]; st.local.u32 [own], %r0; "
                        "ld.local.u32 %r1, [own+4];"),
                    FindingKind::Uninitialised));
}

TEST_F(CheckTest, UninitialisedRegisters) {
  uint64_t x = zeros(256, "x");
  EXPECT_TRUE(found(run("st.global.u32 [%rd90], %r7;", x),
                    FindingKind::Uninitialised,
                    {"a register that was never written"}));
  EXPECT_TRUE(found(run("@%p7 st.global.u32 [%rd90], %r0;", x),
                    FindingKind::Uninitialised));
  // The check follows the register through arithmetic, and reports only lanes
  // that skipped the write.
  std::string some =
      "setp.lt.u32 %p0, %r0, 40; @%p0 mov.u32 %r7, 1; add.u32 %r8, %r7, 1;";
  EXPECT_TRUE(found(run(some + "st.global.u32 [%rd90], %r8;", x),
                    FindingKind::Uninitialised, {"thread (40, 0, 0)"}));
  EXPECT_TRUE(isClean(run(some + "@%p0 st.global.u32 [%rd90], %r8;", x)));
  // A value that selp does not select may be undefined.
  EXPECT_TRUE(isClean(
      run(some + "selp.u32 %r9, %r8, 5, %p0; st.global.u32 [%rd90], %r9;", x)));
  EXPECT_TRUE(found(
      run("shfl.sync.down.b32 %r8, %r0, 1, 31, -1; setp.lt.u32 %p0, %r0, 16;"
          "@%p0 mov.u32 %r7, 1; shfl.sync.down.b32 %r8, %r7, 16, 31, -1;"
          "st.global.u32 [%rd90], %r8;",
          x, 0, 32),
      FindingKind::Uninitialised));
}

TEST_F(CheckTest, SharedRacesBetweenWarps) {
  std::string write = shared() + "st.shared.u32 [%r2], %r0;",
              read = "ld.shared.u32 %r4, [%r3];";
  EXPECT_TRUE(
      found(run(write + read),
            FindingKind::Uninitialised)); // The other warp has not run yet.
  std::string zero =
      shared() +
      "st.shared.u32 [%r2], 0; bar.sync 0; st.shared.u32 [%r2], %r0;";
  EXPECT_TRUE(found(run(zero + read), FindingKind::SharedRace,
                    {"with no barrier between"}));
  EXPECT_TRUE(isClean(run(zero + "bar.sync 0;" + read)));
  // One warp reads, then another warp writes.
  EXPECT_TRUE(
      found(run(zero + "bar.sync 0;" + read + "st.shared.u32 [%r2], 7;"),
            FindingKind::SharedRace, {"with no barrier between"}));
  EXPECT_TRUE(isClean(run(zero + "bar.sync 0;" + read +
                          "bar.sync 0; st.shared.u32 [%r2], 7;")));
  // Another reader is remembered although the writer itself also read.
  std::string broadcast =
      shared() + "st.shared.u32 [%r2], 0; bar.sync 0; ld.shared.u32 %r4, [%r1];"
                 "bar.warp.sync -1;";
  EXPECT_TRUE(found(
      run(broadcast + "setp.eq.u32 %p0, %r0, 95; @%p0 st.shared.u32 [%r1], 1;",
          0, 0, 96),
      FindingKind::SharedRace));
  EXPECT_TRUE(isClean(run(
      broadcast +
          "bar.sync 0; setp.eq.u32 %p0, %r0, 95; @%p0 st.shared.u32 [%r1], 1;",
      0, 0, 96)));
}

TEST_F(CheckTest, NamedBarriersOrderTheirParticipants) {
  // Warps 0 and 1 synchronise by barrier 1; warp 2 takes no part.
  std::string body = shared() + R"(
    st.shared.u32 [%r2], 0; bar.sync 0;
    setp.lt.u32 %p0, %r0, 32; setp.ge.u32 %p1, %r0, {0};
    @%p0 st.shared.u32 [%r2], 5; and.b32 %r5, %r0, 31; mad.lo.u32 %r5, %r5, 4, %r1;
    setp.lt.u32 %p2, %r0, 64; @%p2 bar.sync 1, 64;
    @%p1 ld.shared.u32 %r6, [%r5];)";
  std::string ordered = body, unordered = body;
  ordered.replace(ordered.find("{0}"), 3,
                  "32; setp.lt.and.u32 %p1, %r0, 64, %p1");
  unordered.replace(unordered.find("{0}"), 3, "64");
  EXPECT_TRUE(isClean(run(ordered, 0, 0, 96)));
  EXPECT_TRUE(
      found(run(unordered, 0, 0, 96), FindingKind::SharedRace, {"warp 0"}));
}

TEST_F(CheckTest, SharedRacesWithinAWarp) {
  std::string write = shared() + "xor.b32 %r92, %r0, 1; mad.lo.u32 %r4, %r92, "
                                 "4, %r1; st.shared.u32 [%r2], %r0;";
  EXPECT_TRUE(found(run(write + "ld.shared.u32 %r5, [%r4];", 0, 0, 32),
                    FindingKind::SharedRace, {"no bar.warp.sync between"}));
  EXPECT_TRUE(isClean(
      run(write + "bar.warp.sync -1; ld.shared.u32 %r5, [%r4];", 0, 0, 32)));
  // A shuffle does not order memory.
  EXPECT_TRUE(found(run(write + "shfl.sync.bfly.b32 %r6, %r0, 1, 31, -1; "
                                "ld.shared.u32 %r5, [%r4];",
                        0, 0, 32),
                    FindingKind::SharedRace));
}

TEST_F(CheckTest, LanesThatWriteOneAddress) {
  EXPECT_TRUE(found(run(shared() + "st.shared.u32 [%r1], %r0;", 0, 0, 32),
                    FindingKind::WriteConflict,
                    {"lane 0 writes another value"}));
  EXPECT_TRUE(isClean(run(shared() + "st.shared.u32 [%r1], 5;", 0, 0, 32)));
  uint64_t x = zeros(4, "x");
  EXPECT_TRUE(
      found(run("st.global.u32 [%rd0], %r0;", x), FindingKind::WriteConflict));
}

TEST_F(CheckTest, RacesBetweenBlocks) {
  uint64_t x = zeros(1024, "x");
  EXPECT_TRUE(found(run("st.global.u32 [%rd90], %r0;", x, 0, 64, 2),
                    FindingKind::BlockRace,
                    {"byte 0 of 'x'", "block 0 accesses too"}));
  std::string own =
      "mad.lo.u32 %r8, %r90, 64, %r0; mad.wide.u32 %rd8, %r8, 4, %rd0;";
  EXPECT_TRUE(isClean(run(own + "st.global.u32 [%rd8], %r0;", x, 0, 64, 2)));
  // The two halves of a word are independent.
  EXPECT_TRUE(isClean(run("mad.wide.u32 %rd8, %r90, 2, %rd0; cvt.u16.u32 %h0, "
                          "%r0; st.global.u16 [%rd8], %h0;",
                          x, 0, 1, 2)));
  // One block reads what another writes, whichever comes first.
  std::string mixed = "setp.eq.u32 %p0, %r90, 1; @%p0 st.global.u32 [%rd90], "
                      "1; @!%p0 ld.global.u32 %r1, [%rd90];";
  for (Schedule schedule : {Schedule::Forward, Schedule::Reversed}) {
    gpu.options().schedule = schedule;
    EXPECT_TRUE(found(run(mixed, x, 0, 64, 2), FindingKind::BlockRace));
  }
  EXPECT_TRUE(isClean(run("ld.global.u32 %r1, [%rd90];", x, 0, 64, 8)));
  EXPECT_TRUE(isClean(run("red.global.add.u32 [%rd90], 1;", x, 0, 64, 8)));
  EXPECT_TRUE(
      found(run("red.global.add.u32 [%rd90], 1; ld.global.u32 %r1, [%rd90];", x,
                0, 64, 2),
            FindingKind::BlockRace));
}

TEST_F(CheckTest, ReadersOfManyBlocksAreRemembered) {
  uint64_t x = zeros(256, "x");
  std::string last = "ld.global.u32 %r1, [%rd0]; setp.eq.u32 %p0, %r90, 3;"
                     "setp.eq.and.u32 %p0, %r0, 0, %p0;";
  EXPECT_TRUE(found(run(last + "@%p0 st.global.u32 [%rd0], 1;", x, 0, 32, 4),
                    FindingKind::BlockRace, {"another block accesses too"}));
  EXPECT_TRUE(
      isClean(run(last + "@%p0 st.global.u32 [%rd0+4], 1;", x, 0, 32, 4)));
}

TEST_F(CheckTest, TheLastBlockMayReadWhatOthersReleased) {
  // Split sums: each block writes its part, fences and counts; the last block
  // adds up.
  auto body = [](bool fencesBefore, bool fencesAfter) {
    return std::string(
               "mad.wide.u32 %rd8, %r90, 4, %rd0; st.global.u32 [%rd8], 3;\n") +
           (fencesBefore ? "membar.gl;\n" : "") +
           "atom.global.add.u32 %r1, [%rd1], 1;\n" +
           (fencesAfter ? "membar.gl;\n" : "") +
           "setp.ne.u32 %p0, %r1, 3; @%p0 ret; ld.global.v4.u32 {%r2, %r3, "
           "%r4, %r5}, [%rd0];";
  };
  auto launch = [&](const std::string &text) {
    return run(text, zeros(16), zeros(4), 1, 4);
  };
  EXPECT_TRUE(isClean(launch(body(true, true))));
  EXPECT_TRUE(found(launch(body(false, true)), FindingKind::BlockRace));
  EXPECT_TRUE(found(launch(body(true, false)), FindingKind::BlockRace));
  std::string acqRel = body(false, false);
  acqRel.replace(acqRel.find("atom.global"), 11, "atom.acq_rel.gpu.global");
  EXPECT_TRUE(isClean(launch(acqRel)));
}

TEST_F(CheckTest, TagsOfEarlierLaunchesAreIgnored) {
  uint64_t x = zeros(256, "x");
  const Kernel &k = kernel(
      start() + "setp.eq.u32 %p0, %r90, 1; @%p0 st.global.u32 [%rd90], 1;", 2,
      90);
  const Kernel &other = kernel(
      start() + "setp.eq.u32 %p0, %r90, 0; @%p0 st.global.u32 [%rd90], 1;", 2,
      90);
  LaunchShape shape{{2, 1, 1}, {64, 1, 1}, 0};
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(isClean(gpu.run(i % 2 ? k : other, shape, x, x))) << i;
  // Tags with repeated launch numbers meet those of 64 launches before.
  uint64_t y = zeros(256, "y");
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(
        isClean(gpu.run(i / 64 % 2 ? k : other, shape, i % 64 ? x : y, x)))
        << i;
}

TEST_F(CheckTest, DivergentBarriers) {
  EXPECT_TRUE(found(run("setp.lt.u32 %p0, %r0, 16; @%p0 bar.sync 0;"),
                    FindingKind::DivergentBarrier,
                    {"lanes 0xffff of 0xffffffff"}));
  EXPECT_TRUE(isClean(run("bar.sync 0;")));
  // Threads that have ended need not arrive.
  EXPECT_TRUE(isClean(run("setp.lt.u32 %p0, %r0, 16; @%p0 ret; bar.sync 0;")));
  EXPECT_TRUE(found(run("setp.lt.u32 %p0, %r0, 32; @%p0 bar.sync 1, 64;"),
                    FindingKind::BarrierDeadlock, {"waits at barrier 1"}));
}

TEST_F(CheckTest, DivergentShuffles) {
  std::string some = "setp.lt.u32 %p0, %r0, 8; ";
  EXPECT_TRUE(
      found(run(some + "@%p0 shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;"),
            FindingKind::DivergentWarp,
            {"names lanes 0xffffffff, of which 0xffffff00 are elsewhere"}));
  EXPECT_TRUE(isClean(
      run(some + "@%p0 shfl.sync.bfly.b32 %r1, %r0, 1, 31, 255;", 0, 0, 32)));
  EXPECT_TRUE(found(run("shfl.sync.bfly.b32 %r1, %r0, 1, 31, 255;"),
                    FindingKind::DivergentWarp, {"not one of them"}));
  EXPECT_TRUE(found(run(some + "@%p0 vote.sync.any.pred %p1, %p0, -1;"),
                    FindingKind::DivergentWarp));
  EXPECT_TRUE(
      found(run(some + "@%p0 bar.warp.sync -1;"), FindingKind::DivergentWarp));
  EXPECT_TRUE(found(run(some + "@%p0 bra.uni L; mov.u32 %r1, 1; L:"),
                    FindingKind::DivergentWarp));
}

TEST_F(CheckTest, DivergentMatrices) {
  std::string zero =
      "mov.u32 %r1, 0; mov.f32 %f0, 0f00000000; setp.lt.u32 %p0, %r0, 31;";
  std::string mma = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                    "{%f1,%f2,%f3,%f4}, {%r1,%r1}, {%r1},"
                    " {%f0,%f0,%f0,%f0};";
  EXPECT_TRUE(isClean(run(zero + mma)));
  EXPECT_TRUE(found(run(zero + "@%p0 " + mma), FindingKind::DivergentWarp,
                    {"lanes 0x7fffffff only"}));
}

TEST_F(CheckTest, AsyncCopiesNeedTheirWait) {
  uint64_t x = upload(std::vector<uint32_t>(256), "x");
  std::string copy = shared() + "cp.async.ca.shared.global [%r2], [%rd90], 4;";
  for (AsyncLanding landing : {AsyncLanding::Late, AsyncLanding::Early}) {
    gpu.options().asyncLanding = landing;
    EXPECT_TRUE(found(run(copy + "ld.shared.u32 %r4, [%r2];", x),
                      FindingKind::AsyncRead));
    EXPECT_TRUE(
        isClean(run(copy + "cp.async.wait_all; ld.shared.u32 %r4, [%r2];", x)));
    // The newest group may still be in flight.
    EXPECT_TRUE(found(run(copy + "cp.async.commit_group; cp.async.wait_group "
                                 "1; ld.shared.u32 %r4, [%r2];",
                          x),
                      FindingKind::AsyncRead));
    // A thread's wait makes its copies visible only to itself.
    std::string neighbour = "cp.async.wait_all; xor.b32 %r92, %r0, 1;"
                            "mad.lo.u32 %r5, %r92, 4, %r1;";
    EXPECT_TRUE(found(run(copy + neighbour + "ld.shared.u32 %r4, [%r5];", x),
                      FindingKind::SharedRace));
    EXPECT_TRUE(isClean(run(
        copy + neighbour + "bar.warp.sync -1; ld.shared.u32 %r4, [%r5];", x)));
    EXPECT_TRUE(isClean(run(
        copy + "cp.async.wait_all; bar.sync 0; ld.shared.u32 %r4, [%r3];", x)));
  }
  EXPECT_TRUE(found(run(copy, x + 900), FindingKind::OutOfBounds, {"'x'"}));
}

TEST_F(CheckTest, ReadOnlyMemory) {
  EXPECT_TRUE(found(run("mov.u64 %rd5, t; st.global.u32 [%rd5], 1;", 0, 0, 1, 1,
                        ".const .align 4 .u32 t[2] = {1, 2};"),
                    FindingKind::ReadOnly, {"'t'"}));
}

TEST_F(CheckTest, TrapsAndEndlessLoops) {
  EXPECT_TRUE(found(run("setp.eq.u32 %p0, %r0, 9; @%p0 trap;"),
                    FindingKind::Trap, {"thread (9, 0, 0)"}));
  gpu.options().instructionLimit = 1'000'000;
  EXPECT_TRUE(
      found(run("L: bra L;"), FindingKind::Endless, {"still runs after"}));
}

TEST_F(CheckTest, LaunchLimits) {
  std::string body = ".shared .align 16 .b8 tile[1024]; mov.u32 %r1, tile;";
  const Kernel &k = kernel(body, 0);
  auto launch = [&](LaunchShape shape) { return gpu.launch(k, shape, {}); };
  EXPECT_TRUE(isClean(launch({{1, 1, 1}, {1024, 1, 1}, 0})));
  EXPECT_TRUE(found(launch({{1, 1, 1}, {1025, 1, 1}, 0}),
                    FindingKind::LaunchLimit, {"at most 1024"}));
  EXPECT_TRUE(
      found(launch({{1, 1, 1}, {8, 1, 65}, 0}), FindingKind::LaunchLimit));
  EXPECT_TRUE(
      found(launch({{1, 1, 1}, {0, 1, 1}, 0}), FindingKind::LaunchLimit));
  EXPECT_TRUE(found(launch({{1, 65536, 1}, {1, 1, 1}, 0}),
                    FindingKind::LaunchLimit, {"65535"}));
  EXPECT_TRUE(isClean(launch({{70000, 1, 1}, {1, 1, 1}, 0})));
  for (auto [arch, kib] : {std::pair{75, 64},
                           {80, 163},
                           {86, 99},
                           {89, 99},
                           {90, 227},
                           {120, 99}}) {
    gpu.options().arch = arch;
    uint32_t most = uint32_t(kib << 10) - 1024;
    EXPECT_TRUE(isClean(launch({{1, 1, 1}, {1, 1, 1}, most}))) << arch;
    EXPECT_TRUE(found(launch({{1, 1, 1}, {1, 1, 1}, most + 16}),
                      FindingKind::LaunchLimit,
                      {fmt::format("sm_{} has {}", arch, kib << 10)}));
  }
  EXPECT_TRUE(
      found(gpu.run(k, {}, 7), FindingKind::LaunchLimit, {"it takes 0"}));
  std::string text = kernelText("", 0);
  text.insert(text.find("{\n.reg"), ".reqntid 64, 1, 1\n");
  const Kernel &required = loadText(text);
  EXPECT_TRUE(found(gpu.launch(required, {{1, 1, 1}, {32, 1, 1}, 0}, {}),
                    FindingKind::LaunchLimit, {"it requires (64, 1, 1)"}));
  EXPECT_TRUE(isClean(gpu.launch(required, {{1, 1, 1}, {64, 1, 1}, 0}, {})));
}

TEST_F(CheckTest, ChecksCanBeOff) {
  gpu.options().isChecked = false;
  uint64_t fresh = gpu.memory().allocate(256, "fresh");
  EXPECT_TRUE(
      isClean(run("ld.global.u32 %r1, [%rd90]; st.global.u32 [%rd90], %r7;",
                  fresh, 0, 64, 2)));
  // An address outside all allocations cannot be accessed.
  EXPECT_TRUE(found(run("ld.global.u32 %r1, [%rd90+4];", fresh),
                    FindingKind::OutOfBounds));
}

} // namespace
} // namespace softgpu
