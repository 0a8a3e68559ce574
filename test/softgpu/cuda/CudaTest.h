//===- CudaTest.h - Fixture for programs on software GPUs -------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_CUDA_CUDATEST_H
#define MOE_TEST_SOFTGPU_CUDA_CUDATEST_H

#include "test/softgpu/cuda/Abi.h"
#include "test/softgpu/cuda/SoftCuda.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <numeric>
#include <thread>

namespace softcuda {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

inline constexpr int kOk = 0, kInvalidValue = 1, kOutOfMemory = 2,
                     kNotReady = 600, kUnsupported = 900, kInvalidated = 901,
                     kUnjoined = 904, kIsolation = 905;

/// add: y[i] += x[i] + value for i < n. spin: waits until *flag is value, then
/// sets the word after it. signal: sets *flag when x[0] is set.
inline const char *const kModule = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 y, .param .u64 x, .param .u32 value, .param .u32 n)
{
  .reg .b32 %r<10>; .reg .b64 %rd<10>; .reg .pred %p<2>;
  ld.param.u64 %rd0, [y]; ld.param.u64 %rd1, [x];
  ld.param.u32 %r0, [value]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p0, %r5, %r1; @%p0 ret;
  mad.wide.u32 %rd2, %r5, 4, %rd0; mad.wide.u32 %rd3, %r5, 4, %rd1;
  ld.global.u32 %r6, [%rd2]; ld.global.u32 %r7, [%rd3];
  add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r0;
  st.global.u32 [%rd2], %r6;
  ret;
}
.visible .entry spin(.param .u64 flag, .param .u32 value)
{
  .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p<2>;
  ld.param.u64 %rd0, [flag]; ld.param.u32 %r0, [value];
  st.release.sys.global.u32 [%rd0+4], %r0;
WAIT:
  ld.acquire.sys.global.u32 %r1, [%rd0];
  setp.ne.u32 %p0, %r1, %r0; @%p0 bra WAIT;
  ret;
}
.visible .entry shared(.param .u64 y)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  .shared .align 4 .b8 tile[64];
  ld.param.u64 %rd0, [y]; mov.u32 %r0, tile;
  st.shared.u32 [%r0], 7; ld.shared.u32 %r1, [%r0]; st.global.u32 [%rd0], %r1;
  ret;
}
)";

class CudaTest : public ::testing::TestWithParam<Timing> {
protected:
  void SetUp() override {
    if (!softgpu::isSoftGpuSupported())
      GTEST_SKIP() << "the software GPU needs a CPU with AVX2, FMA and F16C";
    start();
  }
  /// Resets the driver to `gpus` GPUs; this thread's context is that of the
  /// first GPU.
  void start(int gpus = 1, int arch = 89, int idleMilliseconds = 2) {
    Options options;
    options.timing = GetParam();
    options.idleMilliseconds = idleMilliseconds;
    options.gpus.resize(size_t(gpus));
    for (GpuOptions &gpu : options.gpus)
      gpu.gpu.arch = arch;
    reset(options);
    EXPECT_EQ(cuInit(0), kOk);
    contexts.resize(size_t(gpus));
    for (int i = 0; i < gpus; ++i)
      EXPECT_EQ(cuDevicePrimaryCtxRetain(&contexts[size_t(i)], i), kOk);
    EXPECT_EQ(cuCtxPushCurrent_v2(contexts[0]), kOk);
    EXPECT_EQ(cuModuleLoadData(&module, kModule), kOk);
    add = function("add");
  }
  CUfunction function(const char *name) {
    CUfunction out = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&out, module, name), kOk);
    return out;
  }
  CUstream stream() {
    CUstream out = nullptr;
    EXPECT_EQ(cuStreamCreate(&out, 1), kOk);
    return out;
  }
  CUevent event() {
    CUevent out = nullptr;
    EXPECT_EQ(cuEventCreate(&out, 0), kOk);
    return out;
  }
  CUdeviceptr device(uint32_t value, size_t count = kCount) {
    CUdeviceptr out = 0;
    EXPECT_EQ(cuMemAlloc_v2(&out, count * 4), kOk);
    EXPECT_EQ(cuMemsetD32_v2(out, value, count), kOk);
    return out;
  }
  uint32_t *pinned(uint32_t value, size_t count = kCount) {
    void *out = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&out, count * 4, 0), kOk);
    std::fill_n(static_cast<uint32_t *>(out), count, value);
    return static_cast<uint32_t *>(out);
  }
  int launchAdd(CUdeviceptr y, CUdeviceptr x, uint32_t value, CUstream on,
                uint32_t n = kCount) {
    void *parameters[] = {&y, &x, &value, &n};
    return cuLaunchKernel(add, (n + 63) / 64, 1, 1, 64, 1, 1, 0, on, parameters,
                          nullptr);
  }
  std::vector<uint32_t> download(CUdeviceptr from, size_t count = kCount) {
    std::vector<uint32_t> out(count);
    EXPECT_EQ(cuMemcpyDtoH_v2(out.data(), from, count * 4), kOk);
    return out;
  }
  static std::vector<uint32_t> all(uint32_t value, size_t count = kCount) {
    return std::vector<uint32_t>(count, value);
  }

  static constexpr size_t kCount = 100;
  std::vector<CUcontext> contexts;
  CUmodule module = nullptr;
  CUfunction add = nullptr;
};

inline std::string nameOf(const ::testing::TestParamInfo<Timing> &info) {
  return info.param == Timing::Early  ? "Early"
         : info.param == Timing::Late ? "Late"
                                      : "Seeded";
}

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_CUDATEST_H
