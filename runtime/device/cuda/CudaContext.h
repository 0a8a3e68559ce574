//===- CudaContext.h - Owners of CUDA driver objects ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDACONTEXT_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDACONTEXT_H

#include "runtime/device/cuda/CudaDriver.h"

#include <memory>
#include <utility>

namespace moert {

/// Owns an object that one driver call creates and another frees. It must not
/// outlive the CudaContext in which it was created.
template <class Handle> class CudaOwned {
public:
  using Release = cu::Result (*)(Handle);

  CudaOwned() = default;
  CudaOwned(Handle handle, Release release)
      : handle_(handle), release_(release) {}
  CudaOwned(CudaOwned &&other) noexcept { swap(other); }
  CudaOwned &operator=(CudaOwned &&other) noexcept {
    swap(other);
    return *this;
  }
  ~CudaOwned() {
    // An error is ignored, because a destructor cannot report it.
    if (release_)
      (void)release_(handle_);
  }

  Handle get() const { return handle_; }

private:
  void swap(CudaOwned &other) {
    std::swap(handle_, other.handle_);
    std::swap(release_, other.release_);
  }
  Handle handle_{};
  Release release_ = nullptr;
};

/// A device's primary context.
class CudaContext {
public:
  /// Makes the context current on the calling thread, which must also destroy
  /// it. `driver` must outlive the context.
  static StatusOr<std::unique_ptr<CudaContext>> enter(const CudaDriver &driver,
                                                      cu::Device device);
  /// Opens a context that is current only where use() says so.
  static StatusOr<std::unique_ptr<CudaContext>> retain(const CudaDriver &driver,
                                                       cu::Device device);

  /// Makes the context current on a thread for as long as the object lives.
  class Use {
  public:
    explicit Use(const cu::Api &api) : api_(&api) {}
    Use(Use &&other) noexcept : api_(std::exchange(other.api_, nullptr)) {}
    ~Use() {
      cu::Context left = nullptr;
      if (api_)
        (void)api_->cuCtxPopCurrent_v2(&left);
    }

  private:
    const cu::Api *api_;
  };
  StatusOr<Use> use() const;

  CudaContext(const CudaContext &) = delete;
  CudaContext &operator=(const CudaContext &) = delete;
  ~CudaContext();

  /// Returns the bytes of device memory that are free now.
  StatusOr<uint64_t> freeBytes() const;
  /// Allocates device memory; fails with DoesNotFit if there is too little.
  StatusOr<CudaOwned<cu::DevicePointer>> allocate(uint64_t bytes) const;
  /// Allocates pinned host memory, which is copied at the link's full speed.
  StatusOr<CudaOwned<void *>> allocatePinned(uint64_t bytes) const;
  StatusOr<CudaOwned<cu::Stream>> createStream() const;
  /// `flags`: kEventDisableTiming, or 0.
  StatusOr<CudaOwned<cu::Event>> createEvent(unsigned flags = 0) const;

private:
  CudaContext(const CudaDriver &driver, CudaOwned<cu::Device> retained,
              cu::Context handle)
      : driver_(driver), retained_(std::move(retained)), handle_(handle) {}

  const CudaDriver &driver_;
  CudaOwned<cu::Device> retained_;
  cu::Context handle_;
  bool current_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDACONTEXT_H
