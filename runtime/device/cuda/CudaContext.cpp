#include "runtime/device/cuda/CudaContext.h"

#include "runtime/base/Text.h"

#include <fmt/format.h>

namespace moert {

StatusOr<std::unique_ptr<CudaContext>>
CudaContext::retain(const CudaDriver &driver, cu::Device device) {
  const cu::Api &api = driver.api();
  cu::Context handle = nullptr;
  MOE_RETURN_IF_ERROR(
      driver.check(api.cuDevicePrimaryCtxRetain(&handle, device),
                   "opening a context on the GPU"));
  return std::unique_ptr<CudaContext>(new CudaContext(
      driver, {device, driver.api().cuDevicePrimaryCtxRelease_v2}, handle));
}

StatusOr<std::unique_ptr<CudaContext>>
CudaContext::enter(const CudaDriver &driver, cu::Device device) {
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<CudaContext> context,
                       retain(driver, device));
  MOE_RETURN_IF_ERROR(
      driver.check(driver.api().cuCtxPushCurrent_v2(context->handle_),
                   "entering the context of the GPU"));
  context->current_ = true;
  return context;
}

StatusOr<CudaContext::Use> CudaContext::use() const {
  MOE_RETURN_IF_ERROR(driver_.check(driver_.api().cuCtxPushCurrent_v2(handle_),
                                    "entering the context of the GPU"));
  return Use(driver_.api());
}

CudaContext::~CudaContext() {
  cu::Context left = nullptr;
  if (current_)
    (void)driver_.api().cuCtxPopCurrent_v2(&left);
}

StatusOr<uint64_t> CudaContext::freeBytes() const {
  size_t free = 0, total = 0;
  MOE_RETURN_IF_ERROR(
      driver_.check(driver_.api().cuMemGetInfo_v2(&free, &total),
                    "reading the size of free device memory"));
  return uint64_t(free);
}

StatusOr<CudaOwned<cu::DevicePointer>>
CudaContext::allocate(uint64_t bytes) const {
  cu::DevicePointer pointer = 0;
  MOE_RETURN_IF_ERROR(
      driver_.check(driver_.api().cuMemAlloc_v2(&pointer, bytes),
                    fmt::format("allocating {} of device memory",
                                humanBytes(double(bytes)))));
  return CudaOwned<cu::DevicePointer>(pointer, driver_.api().cuMemFree_v2);
}

StatusOr<CudaOwned<void *>> CudaContext::allocatePinned(uint64_t bytes) const {
  void *pointer = nullptr;
  MOE_RETURN_IF_ERROR(
      driver_.check(driver_.api().cuMemHostAlloc(&pointer, bytes, /*flags=*/0),
                    fmt::format("allocating {} of pinned memory",
                                humanBytes(double(bytes)))));
  return CudaOwned<void *>(pointer, driver_.api().cuMemFreeHost);
}

StatusOr<CudaOwned<cu::Stream>> CudaContext::createStream() const {
  cu::Stream stream = nullptr;
  MOE_RETURN_IF_ERROR(driver_.check(
      driver_.api().cuStreamCreate(&stream, cu::kStreamNonBlocking),
      "creating a stream"));
  return CudaOwned<cu::Stream>(stream, driver_.api().cuStreamDestroy_v2);
}

StatusOr<CudaOwned<cu::Event>> CudaContext::createEvent(unsigned flags) const {
  cu::Event event = nullptr;
  MOE_RETURN_IF_ERROR(driver_.check(driver_.api().cuEventCreate(&event, flags),
                                    "creating an event"));
  return CudaOwned<cu::Event>(event, driver_.api().cuEventDestroy_v2);
}

} // namespace moert
