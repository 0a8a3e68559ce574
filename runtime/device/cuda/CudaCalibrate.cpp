#include "runtime/device/cuda/CudaCalibrate.h"

#include "runtime/base/Text.h"
#include "runtime/device/cuda/CudaContext.h"

#include <algorithm>
#include <chrono>
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

  Status measureLink(CudaLimits &limits) {
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
    return Status::ok();
  }

private:
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
  MOE_RETURN_IF_ERROR(measurement.measureLink(limits));
  return limits;
}

} // namespace moert
