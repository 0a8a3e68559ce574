#include "runtime/device/cuda/CudaCalibrate.h"

#include "runtime/base/Text.h"
#include "runtime/device/cuda/CudaContext.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace moert {

namespace {
constexpr uint64_t kMiB = 1u << 20;
/// Minimum size of a copy within the device, far above that of L2
/// (copyBytes()).
constexpr uint64_t kLeastCopyBytes = 256 * kMiB;
constexpr uint64_t kCachesPerCopy = 4;
/// Size of a copy over the link: 1.3 ms at 25 GB/s.
constexpr uint64_t kLinkBytes = 32 * kMiB;
/// Small enough that latency dominates: the transfer takes 0.2 us at 25 GB/s.
constexpr uint64_t kSmallBytes = 4096;
/// Copies between two events. The start of the first, about 5 us, is negligible
/// in the milliseconds that all copies take.
constexpr int kCopiesPerRun = 8;
/// In the first run, clocks and link are still in a low-power state.
constexpr int kLeastRuns = 3;
constexpr int kLatencyRuns = 200;

/// A kernel that reads `count` words of sixteen bytes from `from` on, and
/// writes a word for each thread to `to`, so that no read can be left out.
/// Neighbouring lanes read neighbouring words, as in launches that stream
/// experts (kernels/cuda/Bring.cuh). It is PTX so that calibration needs no
/// compiler: the driver has one.
constexpr const char *kReadKernel = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .entry readHost(.param .u64 from, .param .u64 to, .param .u64 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  ld.param.u64 %rd3, [count];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mad.lo.u32 %r5, %r1, %r2, %r3;
  mul.lo.u32 %r6, %r4, %r2;
  cvt.u64.u32 %rd4, %r5;
  cvt.u64.u32 %rd5, %r6;
  mad.lo.u64 %rd8, %rd4, 4, %rd2;
  mov.u32 %r11, 0;
next:
  setp.ge.u64 %p1, %rd4, %rd3;
  @%p1 bra done;
  mad.lo.u64 %rd6, %rd4, 16, %rd1;
  ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%rd6];
  xor.b32 %r7, %r7, %r8;
  xor.b32 %r9, %r9, %r10;
  xor.b32 %r7, %r7, %r9;
  xor.b32 %r11, %r11, %r7;
  add.u64 %rd4, %rd4, %rd5;
  bra next;
done:
  st.global.u32 [%rd8], %r11;
  ret;
}
)";
/// Blocks for each multiprocessor, and threads of a block. Each thread has one
/// load of sixteen bytes in flight: 16 KiB per multiprocessor.
constexpr unsigned kReadBlocks = 4, kReadThreads = 256;

/// Returns a copy size at which L2 holds neither source nor destination.
uint64_t copyBytes(const CudaGpu &device) {
  return std::max(kLeastCopyBytes, kCachesPerCopy * device.l2Bytes);
}

/// Measures one device.
class Measurement {
public:
  static StatusOr<Measurement> begin(const CudaDriver &driver,
                                     const CudaGpu &device,
                                     const CudaCalibrationOptions &options) {
    Measurement m(driver, options);
    MOE_ASSIGN_OR_RETURN(m.context_, CudaContext::enter(driver, device.handle));
    MOE_ASSIGN_OR_RETURN(m.stream_, m.context_->createStream());
    MOE_ASSIGN_OR_RETURN(m.start_, m.context_->createEvent());
    MOE_ASSIGN_OR_RETURN(m.stop_, m.context_->createEvent());
    return m;
  }

  const CudaContext &context() const { return *context_; }

  /// Measures copies of `bytes` bytes within the device.
  StatusOr<double> memoryBytesPerSecond(uint64_t bytes) {
    MOE_ASSIGN_OR_RETURN(auto from, context_->allocate(bytes));
    MOE_ASSIGN_OR_RETURN(auto to, context_->allocate(bytes));
    MOE_ASSIGN_OR_RETURN(double copied,
                         bestRate(bytes, "copying within the device", [&] {
                           return api().cuMemcpyDtoDAsync_v2(
                               to.get(), from.get(), bytes, stream_.get());
                         }));
    return 2 * copied; // read and written
  }

  Status measureLink(const CudaGpu &gpu, CudaLimits &limits) {
    MOE_ASSIGN_OR_RETURN(auto host, context_->allocatePinned(kLinkBytes));
    MOE_ASSIGN_OR_RETURN(auto device, context_->allocate(kLinkBytes));
    MOE_ASSIGN_OR_RETURN(limits.toDeviceBytesPerSecond,
                         bestRate(kLinkBytes, "copying to the device", [&] {
                           return api().cuMemcpyHtoDAsync_v2(
                               device.get(), host.get(), kLinkBytes,
                               stream_.get());
                         }));
    MOE_ASSIGN_OR_RETURN(limits.toHostBytesPerSecond,
                         bestRate(kLinkBytes, "copying to the host", [&] {
                           return api().cuMemcpyDtoHAsync_v2(
                               host.get(), device.get(), kLinkBytes,
                               stream_.get());
                         }));
    limits.copyLatencySeconds = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kLatencyRuns; ++run) {
      MOE_ASSIGN_OR_RETURN(double seconds,
                           smallCopySeconds(device.get(), host.get()));
      limits.copyLatencySeconds = std::min(limits.copyLatencySeconds, seconds);
    }
    return measureReads(gpu, limits);
  }

private:
  /// Measures reads by a kernel, of more memory than L2 could keep. A driver
  /// that cannot compile the kernel or map memory leaves the rate at zero.
  Status measureReads(const CudaGpu &gpu, CudaLimits &limits) {
    cu::Module loaded = nullptr;
    if (api().cuModuleLoadData(&loaded, kReadKernel) != cu::kSuccess)
      return Status::ok();
    CudaOwned<cu::Module> module(loaded, api().cuModuleUnload);
    cu::Function function = nullptr;
    MOE_RETURN_IF_ERROR(driver_->check(
        api().cuModuleGetFunction(&function, module.get(), "readHost"),
        "finding the kernel that reads the host's memory"));
    const uint64_t bytes = std::max(kLinkBytes, 2 * gpu.l2Bytes);
    MOE_ASSIGN_OR_RETURN(auto host, context_->allocatePinned(bytes));
    cu::DevicePointer from = 0;
    if (api().cuMemHostGetDevicePointer_v2(&from, host.get(), 0) !=
        cu::kSuccess)
      return Status::ok();
    std::memset(host.get(), 1, bytes);
    const unsigned blocks = kReadBlocks * unsigned(gpu.multiprocessors);
    MOE_ASSIGN_OR_RETURN(
        auto sink, context_->allocate(uint64_t(blocks) * kReadThreads * 4));
    cu::DevicePointer to = sink.get();
    uint64_t count = bytes / 16;
    void *arguments[] = {&from, &to, &count};
    MOE_ASSIGN_OR_RETURN(
        limits.kernelReadBytesPerSecond,
        bestRate(bytes, "reading the host's memory by a kernel", [&] {
          return api().cuLaunchKernel(function, blocks, 1, 1, kReadThreads, 1,
                                      1, 0, stream_.get(), arguments, nullptr);
        }));
    return Status::ok();
  }

  Measurement(const CudaDriver &driver, const CudaCalibrationOptions &options)
      : driver_(&driver), options_(options) {}

  const cu::Api &api() const { return driver_->api(); }

  /// Measured with the host's clock, because a step waits on the host.
  StatusOr<double> smallCopySeconds(cu::DevicePointer to, const void *from) {
    auto start = std::chrono::steady_clock::now();
    MOE_RETURN_IF_ERROR(driver_->check(
        api().cuMemcpyHtoDAsync_v2(to, from, kSmallBytes, stream_.get()),
        "a small copy to the device"));
    MOE_RETURN_IF_ERROR(record(stop_));
    MOE_RETURN_IF_ERROR(wait(stop_));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  }

  /// Returns the best rate, by the device's clock, of copies of `bytes` that
  /// `copy()` enqueues.
  template <class Copy>
  StatusOr<double> bestRate(uint64_t bytes, std::string_view what,
                            const Copy &copy) {
    double best = 0, spent = 0;
    for (int run = 0; run < kLeastRuns || spent < options_.seconds; ++run) {
      MOE_RETURN_IF_ERROR(record(start_));
      for (int i = 0; i < kCopiesPerRun; ++i)
        MOE_RETURN_IF_ERROR(driver_->check(copy(), what));
      MOE_RETURN_IF_ERROR(record(stop_));
      MOE_RETURN_IF_ERROR(wait(stop_));
      float milliseconds = 0;
      MOE_RETURN_IF_ERROR(driver_->check(
          api().cuEventElapsedTime(&milliseconds, start_.get(), stop_.get()),
          "reading the device's clock"));
      double seconds = double(milliseconds) * 1e-3;
      if (!(seconds > 0))
        return Status(StatusCode::Io,
                      fmt::format("{}: the driver says that it took {} ms",
                                  what, milliseconds));
      spent += seconds;
      best = std::max(best, kCopiesPerRun * double(bytes) / seconds);
    }
    return best;
  }

  Status record(const CudaOwned<cu::Event> &event) {
    return driver_->check(api().cuEventRecord(event.get(), stream_.get()),
                          "recording an event");
  }
  Status wait(const CudaOwned<cu::Event> &event) {
    return driver_->check(api().cuEventSynchronize(event.get()),
                          "waiting for the device");
  }

  const CudaDriver *driver_;
  CudaCalibrationOptions options_;
  std::unique_ptr<CudaContext> context_; ///< Destroyed after the members below.
  CudaOwned<cu::Stream> stream_;
  CudaOwned<cu::Event> start_, stop_;
};
} // namespace

StatusOr<CudaLimits> measureCudaDevice(const CudaDriver &driver,
                                       const CudaGpu &device,
                                       const CudaCalibrationOptions &options) {
  MOE_ASSIGN_OR_RETURN(Measurement measurement,
                       Measurement::begin(driver, device, options));
  CudaLimits limits;
  MOE_ASSIGN_OR_RETURN(limits.freeBytes, measurement.context().freeBytes());
  uint64_t bytes = copyBytes(device);
  if (limits.freeBytes < 2 * bytes)
    return Status(StatusCode::DoesNotFit,
                  fmt::format("{} of its memory are free, measuring needs {}",
                              humanBytes(double(limits.freeBytes)),
                              humanBytes(2 * double(bytes))));
  MOE_ASSIGN_OR_RETURN(limits.memoryBytesPerSecond,
                       measurement.memoryBytesPerSecond(bytes));
  MOE_RETURN_IF_ERROR(measurement.measureLink(device, limits));
  return limits;
}

} // namespace moert
