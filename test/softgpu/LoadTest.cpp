//===- LoadTest.cpp - Modules that load, and errors of others -------------===//

#include "test/softgpu/Image.h"
#include "test/softgpu/PtxTest.h"

#include <gmock/gmock.h>

namespace softgpu {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class LoadTest : public PtxTest {
  void SetUp() override {
    if (isOnDriver())
      GTEST_SKIP() << "a driver has other messages";
  }
};

TEST_F(LoadTest, UnknownNamesFailTheLoad) {
  EXPECT_EQ(loadError("\n\ntcgen05.wait::ld.sync.aligned;"),
            "PTX line 11: unknown opcode 'tcgen05.wait::ld.sync.aligned'");
  EXPECT_THAT(loadError("add.rx.f32 %f0, %f1, %f2;"),
              HasSubstr("unknown modifier '.rx' in 'add.rx.f32'"));
  EXPECT_THAT(loadError("add.s32.foo %r0, %r1, %r2;"),
              HasSubstr("'add.s32.foo' is not supported"));
  EXPECT_THAT(loadError(".frobnicate 3;"),
              HasSubstr("unknown directive '.frobnicate'"));
  EXPECT_THAT(loadError("ld.global.L3::x.u32 %r0, [%rd0];"),
              HasSubstr("unknown modifier '.L3::x'"));
  EXPECT_THAT(loadError("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
                        "{%f0,%f1,%f2,%f3}, "
                        "{%r0,%r1}, {%r2}, {%f0,%f1,%f2,%f3};"),
              HasSubstr("unknown modifier '.m16n8k4'"));
  EXPECT_THAT(loadError("cp.async.bulk.wait_group 0;"),
              HasSubstr("unknown modifier '.wait_group'"));
  EXPECT_THAT(loadError("mov.u32 %r0, %nosuch;"),
              HasSubstr("unknown name '%nosuch'"));
  EXPECT_THAT(loadError("bra NOWHERE;"), HasSubstr("no label 'NOWHERE'"));
}

/// Instructions that a driver's ptxas rejects.
TEST_F(LoadTest, FormsThatPtxLacksFailTheLoad) {
  for (const char *text :
       {"red.global.exch.b32 [%rd0], %r0;", "sub.u16x2 %r0, %r1, %r2;",
        "red.global.cas.b32 [%rd0], %r0, %r1;", "cvt.rni.s8.bf16 %h0, %h1;",
        "cvt.rn.bf16.u8 %h0, %h1;"})
    EXPECT_THAT(loadError(text, 90), HasSubstr("is not supported")) << text;
  EXPECT_THAT(loadError("cvt.sat.s32.u16 %r0, %h0;"),
              HasSubstr("'cvt.sat.s32.u16' never saturates"));
  EXPECT_EQ(loadError("cvt.sat.s16.u16 %h1, %h0; cvt.sat.u64.s8 %rd0, %h0;"),
            "");
}

TEST_F(LoadTest, OperandsAreChecked) {
  EXPECT_THAT(loadError("add.s32 %r0, %rd1, %r2;"),
              HasSubstr("'%rd1' has 64 bits, 'add.s32' reads 32"));
  EXPECT_THAT(loadError("add.s32 %r0, %r1;"), HasSubstr("with 2 operands"));
  EXPECT_THAT(loadError("cvt.f16.f32 %h0, %f0;"),
              HasSubstr("needs a rounding"));
  EXPECT_THAT(loadError("@%r0 bra L; L:"),
              HasSubstr("'%r0' is not a predicate"));
  EXPECT_THAT(loadError("call.uni foo, ();"),
              HasSubstr("call of 'foo', which has no body here"));
}

TEST_F(LoadTest, InstructionsNeedTheirArchitecture) {
  std::string copy = "cp.async.ca.shared.global [%r0], [%rd0], 4;";
  EXPECT_THAT(loadError(copy, 75), HasSubstr("needs sm_80, .target is sm_75"));
  EXPECT_EQ(loadError(copy, 80), "");
}

TEST_F(LoadTest, ModulesForLaterArchitecturesAreRefused) {
  gpu.options().arch = 86;
  EXPECT_EQ(loadError("", 89), "PTX for sm_89 does not run on sm_86");
  EXPECT_EQ(loadError("", 80), "");
  std::string text = kernelText("");
  text.replace(text.find("sm_80"), 5, "sm_90a");
  gpu.options().arch = 100;
  EXPECT_EQ(gpu.load(text).status().message(),
            "PTX for sm_90a does not run on sm_100");
}

TEST_F(LoadTest, DebugDirectivesAreSkipped) {
  const Kernel &k = loadText(R"(.version 9.0
.target sm_80, debug
.address_size 64
.file 1 "/a/b.cu", 123, 456
.visible .entry k(.param .u64 .ptr .global .align 16 p0)
.maxntid 128, 1, 1
.minnctapersm 2
{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  .pragma "nounroll";
  .loc 1 7 3
  ld.param.u64 %rd1, [p0];
  .loc 1 8 3, function_name $L__info_string0, inlined_at 1 7 9
  mov.u32 %r1, 0x2a; // 42
  st.global.u32 [%rd1], %r1; /* a
  comment */
  ret;
}
.section .debug_str { $L__info_string0: .b8 95, 90, 0 }
)");
  EXPECT_EQ(k.maxThreads[0], 128u);
  uint64_t out = zeros(4);
  LaunchResult result = gpu.run(k, {}, out);
  EXPECT_TRUE(isClean(result));
  EXPECT_EQ(download<uint32_t>(out, 1)[0], 42u);
}

TEST_F(LoadTest, VariablesHaveTheirValues) {
  const Kernel &k = kernel(R"(
    ld.param.u64 %rd0, [p0];
    ld.const.f32 %f0, [table+4];
    ld.global.u64 %rd1, [pointer];
    ld.u16 %h0, [%rd1];
    st.global.f32 [%rd0], %f0; st.global.u16 [%rd0+4], %h0;)",
                           1, 80, R"(
    .const .align 4 .f32 table[2] = {0f3F800000, 2.5};
    .global .align 2 .u16 words[3] = {1, 2, 777};
    .global .align 8 .u64 pointer = generic(words)+4;)");
  uint64_t out = zeros(8);
  ASSERT_TRUE(isClean(gpu.run(k, {}, out)));
  EXPECT_EQ(download<float>(out, 1)[0], 2.5f);
  EXPECT_EQ(download<uint16_t>(out, 3)[2], 777);
}

TEST_F(LoadTest, FunctionsAreInlined) {
  const Kernel &k = kernel(R"(
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x;
    { .param .b32 a; st.param.b32 [a], %r0; .param .b32 r;
      call.uni (r), twice, (a); ld.param.b32 %r1, [r]; }
    { .param .b32 a; st.param.b32 [a], %r1; .param .b32 r;
      call.uni (r), twice, (a); ld.param.b32 %r1, [r]; }
    mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r1;)",
                           1, 80, R"(
    .func (.param .b32 result) twice(.param .b32 x) {
      .reg .b32 %r<3>; .reg .pred %p;
      ld.param.u32 %r0, [x]; setp.lt.u32 %p, %r0, 10;
      @%p bra SMALL;
      mul.lo.u32 %r1, %r0, 2; st.param.u32 [result], %r1; ret;
      SMALL: add.u32 %r1, %r0, 1; st.param.u32 [result], %r1; ret;
    })");
  uint64_t out = zeros(128);
  LaunchShape shape;
  shape.threads[0] = 32;
  ASSERT_TRUE(isClean(gpu.run(k, shape, out)));
  auto twice = [](uint32_t x) { return x < 10 ? x + 1 : 2 * x; };
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(download<uint32_t>(out, 32)[i], twice(twice(i)));
}

TEST(ImageTest, PtxNamesItsTarget) {
  auto image = identifyImage(
      "// made by hand\n.version 8.7\n.target sm_90a\n.address_size 64\n");
  ASSERT_TRUE(image.isOk());
  EXPECT_EQ(image->kind, ImageKind::Ptx);
  EXPECT_EQ(image->arch, 90);
  EXPECT_EQ(image->suffix, 'a');
  EXPECT_EQ(image->versionMajor, 8);
}

/// An ELF header of 64 bytes for a GPU, with the fields that identification
/// reads.
std::string cubinHeader(uint8_t osAbi, uint8_t abiVersion, uint32_t flags) {
  std::string elf(64, '\0');
  elf.replace(0, 7,
              std::string("\x7f"
                          "ELF\x02\x01\x01",
                          7));
  elf[7] = char(osAbi);
  elf[8] = char(abiVersion);
  elf[18] = char(190);
  for (int i = 0; i < 4; ++i)
    elf[48 + i] = char(flags >> 8 * i);
  return elf;
}

TEST(ImageTest, CubinNamesItsArchitecture) {
  // These headers are those that nvcc 12 and 13 write for sm_89 and sm_120.
  auto old = identifyImage(cubinHeader(0x33, 7, 0x00590559));
  ASSERT_TRUE(old.isOk()) << old.status().message();
  EXPECT_EQ(old->kind, ImageKind::Cubin);
  EXPECT_EQ(old->arch, 89);
  auto now = identifyImage(cubinHeader(0x41, 8, 0x06007802));
  ASSERT_TRUE(now.isOk()) << now.status().message();
  EXPECT_EQ(now->arch, 120);
  EXPECT_FALSE(identifyImage("hello").isOk());
  EXPECT_FALSE(identifyImage("").isOk());
  std::string x86 = cubinHeader(0, 0, 0);
  x86[18] = 62;
  EXPECT_FALSE(identifyImage(x86).isOk());
}

TEST(ImageTest, TheDriverChoosesAsDocumented) {
  auto cubin = [](int arch) { return Image{ImageKind::Cubin, arch, 0, 0, 0}; };
  auto ptx = [](int arch, char suffix = 0, int major = 9) {
    return Image{ImageKind::Ptx, arch, suffix, major, 0};
  };
  auto choose = [](int gpu, std::vector<Image> images, int driver = 13000) {
    return chooseImage(images, gpu, driver);
  };
  // A cubin runs on the same major with an equal or higher minor.
  EXPECT_EQ(choose(89, {cubin(86)}), 0);
  EXPECT_EQ(choose(86, {cubin(89)}), -1);
  EXPECT_EQ(choose(90, {cubin(89)}), -1);
  EXPECT_EQ(choose(121, {cubin(120)}), 0);
  EXPECT_EQ(choose(120, {cubin(103)}), -1);
  // The nearest image that runs is chosen, and a cubin is preferred to PTX.
  EXPECT_EQ(choose(89, {cubin(80), cubin(86), ptx(89)}), 1);
  // PTX runs on any later architecture; the highest that is not above is
  // chosen.
  EXPECT_EQ(choose(120, {ptx(80), ptx(90), cubin(89)}), 1);
  EXPECT_EQ(choose(75, {ptx(80)}), -1);
  EXPECT_EQ(choose(100, {ptx(90, 'a')}), -1);
  EXPECT_EQ(choose(90, {ptx(90, 'a')}), 0);
  // A driver does not accept PTX that is newer than itself.
  EXPECT_EQ(choose(89, {ptx(80, 0, 9)}, 12080), -1);
  EXPECT_EQ(choose(89, {ptx(80, 0, 8)}, 12080), 0);
}

} // namespace
} // namespace softgpu
