#include "kernels/Registry.h"

#include <gtest/gtest.h>
#include <set>
#include <string>

using namespace moek;

namespace {

TEST(RegistryTest, NamesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const KernelInfo &kernel : kernelTable()) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    EXPECT_EQ(findKernel(kernel.name), &kernel);
  }
  for (const GemmInfo &gemm : gemmTable()) {
    EXPECT_TRUE(names.insert(gemm.name).second) << gemm.name;
    EXPECT_EQ(findGemm(gemm.name), &gemm);
  }
  EXPECT_EQ(findKernel("linear_"), nullptr);
  EXPECT_EQ(findGemm(""), nullptr);
}

TEST(RegistryTest, EveryOpHasAReferenceKernel) {
  for (unsigned op = 0; op < kOpCodeCount; ++op) {
    // Copy only runs between devices and needs no kernel.
    bool found = OpCode(op) == OpCode::Copy;
    for (const KernelInfo &kernel : kernelTable())
      found |= unsigned(kernel.op) == op && kernel.isa == Isa::Ref;
    EXPECT_TRUE(found) << "op " << op;
  }
}

/// Whether the kernels of a set are code of this program.
bool isOfThisProgram(Isa isa) {
#if defined(__x86_64__)
  constexpr bool X86 = true, Arm = false;
#else
  constexpr bool X86 = false, Arm = true;
#endif
  constexpr bool Any = true, Gpu = false;
  constexpr bool isHere[] = {
#define MOE_INSTRUCTION_SET(id, name, base, bytes, panels, machine, ...)       \
  machine,
#include "kernels/Isas.def"
  };
  return isHere[size_t(isa)];
}

TEST(RegistryTest, NamesOfOtherProcessorsHaveNoCodeHere) {
  for (const KernelInfo &kernel : kernelTable())
    EXPECT_EQ(resolveKernel(kernel.name) != nullptr,
              isOfThisProgram(kernel.isa))
        << kernel.name;
  EXPECT_EQ(resolveKernel("no_such_kernel"), nullptr);
  EXPECT_FALSE(hostSupports(Isa::Cuda));
}

TEST(RegistryTest, IsaNamesRoundTrip) {
  for (const IsaInfo &info : isaTable())
    EXPECT_EQ(isaFromName(info.name), info.isa);
  EXPECT_EQ(isaName(Isa::Avx512), "avx512");
  EXPECT_EQ(isaName(Isa::Amx), "amx");
  EXPECT_FALSE(isaFromName("sve").has_value());
}

/// Ensures that every line of Kernels.def has a test of its op.
TEST(RegistryTest, EveryKernelOfThisHostIsTested) {
  std::set<std::string> tested;
  const auto *tests = testing::UnitTest::GetInstance();
  for (int i = 0; i < tests->total_test_suite_count(); ++i) {
    const auto *suite = tests->GetTestSuite(i);
    for (int j = 0; j < suite->total_test_count(); ++j) {
      std::string name = suite->GetTestInfo(j)->name();
      tested.insert(name.substr(name.find('/') + 1));
    }
  }
  for (const KernelInfo &kernel : kernelTable())
    if (kernel.isa != Isa::Cuda && hostSupports(kernel.isa)) {
      EXPECT_TRUE(tested.count(std::string(kernel.name))) << kernel.name;
    }
}

} // namespace
