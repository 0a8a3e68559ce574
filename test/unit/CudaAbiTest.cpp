// Compares our declarations of the driver's interface with NVIDIA's header, and
// our symbol names with its library. Built only with the CUDA toolkit.
#include "runtime/device/cuda/CudaDriver.h"

#include <cuda.h>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <type_traits>

using namespace moert;

namespace {

/// Whether two types are passed in the same way: as pointers, or as integers of
/// the same size.
template <class A, class B> constexpr bool passedAlike() {
  return std::is_pointer_v<A> == std::is_pointer_v<B> && sizeof(A) == sizeof(B);
}

template <class R, class... Ours, class S, class... Theirs>
constexpr bool calledAlike(R (*)(Ours...), S (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs))
    return false;
  else
    return passedAlike<R, S>() && (passedAlike<Ours, Theirs>() && ...);
}

namespace ours {
using namespace moert::cu;
// cuda.h maps some names to newer versions. If such a line fails, the call has
// changed, and our declaration has to follow the version that it names.
#define MOE_CUDA_CALL(symbol, ...)                                             \
  static_assert(                                                               \
      calledAlike(static_cast<Result (*)(__VA_ARGS__)>(nullptr), &::symbol),   \
      "cuda.h declares it otherwise: " #symbol);
#include "runtime/device/cuda/CudaApi.def"
} // namespace ours

TEST(CudaAbi, ConstantsAreTheHeaders) {
  EXPECT_EQ(unsigned(cu::kSuccess), unsigned(CUDA_SUCCESS));
  EXPECT_EQ(unsigned(cu::kOutOfMemory), unsigned(CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_EQ(unsigned(cu::kNoDevice), unsigned(CUDA_ERROR_NO_DEVICE));
  EXPECT_EQ(unsigned(cu::kClockKhz), unsigned(CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
  EXPECT_EQ(unsigned(cu::kMultiprocessors),
            unsigned(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  EXPECT_EQ(unsigned(cu::kIntegrated),
            unsigned(CU_DEVICE_ATTRIBUTE_INTEGRATED));
  EXPECT_EQ(unsigned(cu::kMemoryClockKhz),
            unsigned(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
  EXPECT_EQ(unsigned(cu::kMemoryBusBits),
            unsigned(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
  EXPECT_EQ(unsigned(cu::kL2Bytes),
            unsigned(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  EXPECT_EQ(unsigned(cu::kCapabilityMajor),
            unsigned(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EXPECT_EQ(unsigned(cu::kCapabilityMinor),
            unsigned(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  EXPECT_EQ(unsigned(cu::kNoBinaryForGpu),
            unsigned(CUDA_ERROR_NO_BINARY_FOR_GPU));
  EXPECT_EQ(unsigned(cu::kInvalidPtx), unsigned(CUDA_ERROR_INVALID_PTX));
  EXPECT_EQ(unsigned(cu::kUnsupportedPtxVersion),
            unsigned(CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
  EXPECT_EQ(unsigned(cu::kAlreadyRegistered),
            unsigned(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED));
  EXPECT_EQ(unsigned(cu::kNotSupported), unsigned(CUDA_ERROR_NOT_SUPPORTED));
  EXPECT_EQ(unsigned(cu::kCaptureUnsupported),
            unsigned(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
  EXPECT_EQ(cu::kWaitAtLeast, unsigned(CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_EQ(cu::kWriteInOrder, unsigned(CU_STREAM_WRITE_VALUE_DEFAULT));
  EXPECT_EQ(cu::kEventDisableTiming, unsigned(CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(cu::kHostPortable, unsigned(CU_MEMHOSTREGISTER_PORTABLE));
  EXPECT_EQ(cu::kHostMapped, unsigned(CU_MEMHOSTREGISTER_DEVICEMAP));
  EXPECT_EQ(unsigned(cu::kMaxDynamicSharedBytes),
            unsigned(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  EXPECT_EQ(unsigned(cu::kCaptureOfThisThread),
            unsigned(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_EQ(cu::kStreamNonBlocking, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(unsigned(cu::kInvalidImage), unsigned(CUDA_ERROR_INVALID_IMAGE));
  EXPECT_EQ(unsigned(cu::kHasTimeLimit),
            unsigned(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT));
  EXPECT_EQ(cu::kEventBlockingSync, unsigned(CU_EVENT_BLOCKING_SYNC));
  EXPECT_EQ(cu::kProgrammaticSerialization,
            unsigned(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));
}

TEST(CudaAbi, StructsAreTheHeaders) {
  static_assert(sizeof(cu::LaunchConfig) == sizeof(CUlaunchConfig));
  static_assert(offsetof(cu::LaunchConfig, stream) ==
                offsetof(CUlaunchConfig, hStream));
  static_assert(offsetof(cu::LaunchConfig, attributes) ==
                offsetof(CUlaunchConfig, attrs));
  static_assert(sizeof(cu::LaunchAttribute) == sizeof(CUlaunchAttribute));
  cu::LaunchAttribute ours{cu::kProgrammaticSerialization, 1};
  CUlaunchAttribute theirs;
  std::memcpy(&theirs, &ours, sizeof(theirs));
  EXPECT_EQ(theirs.id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(theirs.value.programmaticStreamSerializationAllowed, 1);
}

TEST(CudaAbi, TheToolkitsLibraryHasEverySymbol) {
  // The toolkit's stand-in for the driver has all symbols and does nothing.
  std::string stub = MOE_CUDA_STUB;
  if (!std::filesystem::exists(stub))
    GTEST_SKIP() << "no stub library in this toolkit";
  Status status = CudaDriver::load(stub).status();
  EXPECT_EQ(status.code(), StatusCode::Io) << status.message();
  std::string started = fmt::format(
      "starting the CUDA driver: {} ({}: {})", "an unknown CUDA error",
      unsigned(CUDA_ERROR_STUB_LIBRARY), "no description");
  EXPECT_EQ(status.message(), started);
}

} // namespace
