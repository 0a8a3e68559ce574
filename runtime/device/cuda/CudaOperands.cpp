#include "runtime/device/cuda/CudaOperands.h"

#include "kernels/cuda/Launch.h"
#include "runtime/plan/PlanAccess.h"

namespace moert {

namespace {
template <class T> T *pointerTo(cu::DevicePointer address) {
  return reinterpret_cast<T *>(uintptr_t(address));
}
} // namespace

uint8_t *CudaOperands::bytes(std::string_view name) {
  const fb::Buffer &buffer = op_.buffer(name);
  if (received_ && buffer.device() != op_.device())
    return pointerTo<uint8_t>(received_);
  cu::DevicePointer arena =
      buffer.per_worker() ? 0 : memory_.arenas[buffer.device()];
  if (!arena) {
    failToReach(name);
    return nullptr;
  }
  return pointerTo<uint8_t>(arena + buffer.offset());
}

std::span<const float> CudaOperands::constant(std::string_view name) const {
  return {pointerTo<const float>(memory_.constants[op_.operand(name).index()]),
          op_.constant(name).size()};
}

moek::WeightView CudaOperands::weight(std::string_view name) {
  uint32_t index = op_.operand(name).index();
  for (const auto *addresses : {&memory_.streamed, &memory_.inPlace})
    if (auto it = addresses->find(index); it != addresses->end())
      return weightAt(name, pointerTo<const uint8_t>(it->second));
  if (!weights_.has(index)) {
    if (status_.isOk())
      status_ = invalidPlan("weight {} is not resident where it is read",
                            text(op_.weight(name).name()));
    return weightAt(name, nullptr);
  }
  return weightAt(
      name, pointerTo<const uint8_t>(memory_.weights + weights_.offset(index)));
}

moek::KvView CudaOperands::cache(std::string_view name) const {
  return cacheIn(name, pointerTo<uint8_t>(memory_.kv));
}

moek::GemmFn CudaOperands::gemm(std::string_view) const {
  return moek::cuda::gemmOnGpu();
}

} // namespace moert
