//===- HostIsaTest.cpp - Detection of this CPU's instruction sets ---------===//

#include "kernels/Registry.h"

#include <gtest/gtest.h>

namespace moek {
namespace {

TEST(HostIsaTest, HostAgreesWithTheCompilersDetection) {
  EXPECT_TRUE(hostSupports(Isa::Ref));
#if defined(__x86_64__)
  EXPECT_EQ(hostSupports(Isa::Avx2),
            __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(hostSupports(Isa::Avx512), __builtin_cpu_supports("avx512vnni") &&
                                           __builtin_cpu_supports("avx512bw") &&
                                           __builtin_cpu_supports("avx512dq") &&
                                           __builtin_cpu_supports("avx512vl"));
#endif
}

} // namespace
} // namespace moek
