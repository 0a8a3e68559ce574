//===- HostIsaTest.cpp - Detection of this CPU's instruction sets ---------===//

#include "kernels/Registry.h"

#include <gtest/gtest.h>

namespace moek {
namespace {

TEST(HostIsaTest, HostAgreesWithTheCompilersDetection) {
  EXPECT_TRUE(hostSupports(Isa::Ref));
#if defined(__x86_64__)
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  EXPECT_EQ(hostSupports(Isa::Avx2), avx2);
  EXPECT_EQ(hostSupports(Isa::AvxVnni),
            avx2 && __builtin_cpu_supports("avxvnni"));
  EXPECT_EQ(hostSupports(Isa::Avx512), __builtin_cpu_supports("avx512vnni") &&
                                           __builtin_cpu_supports("avx512bw") &&
                                           __builtin_cpu_supports("avx512dq") &&
                                           __builtin_cpu_supports("avx512vl"));
#elif defined(__aarch64__)
  // The registers that describe a CPU, which Linux lets programs read.
  uint64_t isar0 = 0, isar1 = 0;
  __asm__("mrs %0, id_aa64isar0_el1" : "=r"(isar0));
  __asm__("mrs %0, id_aa64isar1_el1" : "=r"(isar1));
  bool dots = isar0 >> 44 & 15;
  EXPECT_EQ(hostSupports(Isa::Neon), dots);
  EXPECT_EQ(hostSupports(Isa::NeonI8mm), dots && (isar1 >> 52 & 15));
#endif
  for (const IsaInfo &info : isaTable()) {
    bool isArm = runsOn(Isa::Neon, info.isa);
#if defined(__x86_64__)
    EXPECT_FALSE(isArm && hostSupports(info.isa)) << info.name;
#elif defined(__aarch64__)
    EXPECT_FALSE(!isArm && info.isa != Isa::Ref && hostSupports(info.isa))
        << info.name;
#else
    EXPECT_EQ(hostSupports(info.isa), info.isa == Isa::Ref) << info.name;
#endif
  }
}

TEST(HostIsaTest, SetsAreATree) {
  for (const IsaInfo &info : isaTable()) {
    EXPECT_EQ(&info - isaTable().data(), ptrdiff_t(info.isa));
    EXPECT_LE(info.base, info.isa) << info.name;
    EXPECT_TRUE(runsOn(info.isa, info.isa)) << info.name;
    EXPECT_EQ(runsOn(Isa::Ref, info.isa), info.isa != Isa::Cuda) << info.name;
    EXPECT_EQ(runsOn(Isa::Cuda, info.isa), info.isa == Isa::Cuda) << info.name;
  }
  EXPECT_TRUE(runsOn(Isa::Avx2, Isa::AvxVnni));
  EXPECT_TRUE(runsOn(Isa::Avx2, Isa::Amx));
  EXPECT_TRUE(runsOn(Isa::Avx512, Isa::Amx));
  EXPECT_FALSE(runsOn(Isa::AvxVnni, Isa::Avx512));
  EXPECT_FALSE(runsOn(Isa::AvxVnni, Isa::Amx));
  EXPECT_FALSE(runsOn(Isa::Avx512, Isa::AvxVnni));
  EXPECT_FALSE(runsOn(Isa::AvxVnni, Isa::Avx2));
  EXPECT_TRUE(runsOn(Isa::Neon, Isa::NeonI8mm));
  EXPECT_FALSE(runsOn(Isa::NeonI8mm, Isa::Neon));
  EXPECT_FALSE(runsOn(Isa::Avx2, Isa::NeonI8mm));
}

TEST(HostIsaTest, NamesOfCpus) {
  EXPECT_EQ(cpuIsaNames(),
            "ref, avx2, avxvnni, avx512, amx, neon or neon_i8mm");
  EXPECT_EQ(isaFromName("avxvnni"), Isa::AvxVnni);
  EXPECT_EQ(isaFromName("mmx"), std::nullopt);
}

/// Ends the limits of a test.
class HostIsaLimitTest : public testing::Test {
protected:
  void TearDown() override { limitHostIsa(std::nullopt); }
};

TEST_F(HostIsaLimitTest, LeavesASetAndWhatItRuns) {
  bool had[std::size_t(Isa::Cuda)];
  for (size_t i = 0; i < std::size(had); ++i)
    had[i] = hostSupports(Isa(i));
  for (const IsaInfo &most : isaTable()) {
    if (most.isa == Isa::Cuda)
      continue;
    limitHostIsa(most.isa);
    EXPECT_EQ(hostIsaLimit(), most.isa);
    for (size_t i = 0; i < std::size(had); ++i) {
      bool runs = runsOn(Isa(i), most.isa);
      EXPECT_EQ(hostSupports(Isa(i)), had[i] && runs)
          << isaName(Isa(i)) << " of " << most.name;
      EXPECT_EQ(hostRefusal(Isa(i)) == "which --isa rules out", !runs);
    }
    EXPECT_TRUE(runsOn(bestHostIsa(), most.isa));
    EXPECT_EQ(bestHostIsa() == most.isa, had[size_t(most.isa)]);
  }
}

} // namespace
} // namespace moek
