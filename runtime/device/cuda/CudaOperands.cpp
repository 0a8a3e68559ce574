#include "runtime/device/cuda/CudaOperands.h"

#include "kernels/KvCache.h"
#include "kernels/cuda/Launch.h"

#include <algorithm>

namespace moert {

namespace {
template <class T> T *pointerTo(cu::DevicePointer address) {
  return reinterpret_cast<T *>(uintptr_t(address));
}
} // namespace

const fb::Operand &CudaOperands::operand(std::string_view name) const {
  auto it = std::ranges::find(op_.spec().operands, name, &OperandSpec::name);
  return *op_.instruction().operands()->Get(
      uint32_t(it - op_.spec().operands.begin()));
}

uint8_t *CudaOperands::bytes(std::string_view name) {
  const fb::Buffer &buffer = op_.buffer(name);
  cu::DevicePointer arena =
      buffer.per_worker() ? 0 : memory_.arenas[buffer.device()];
  if (!arena) {
    auto nameOf = [&](uint32_t device) {
      return text(plan_.devices()->Get(device)->name());
    };
    if (status_.isOk())
      status_ = Status(
          StatusCode::WrongMachine,
          fmt::format("operand {} lies in the memory of {}, which {} does not "
                      "reach",
                      name, nameOf(buffer.device()), nameOf(op_.device())));
    return nullptr;
  }
  return pointerTo<uint8_t>(arena + buffer.offset());
}

std::span<const float> CudaOperands::constant(std::string_view name) const {
  return {pointerTo<const float>(memory_.constants[operand(name).index()]),
          op_.constant(name).size()};
}

moek::WeightView CudaOperands::weight(std::string_view name) {
  const fb::Weight &w = op_.weight(name);
  uint32_t index = operand(name).index();
  if (!weights_.has(index) && status_.isOk())
    status_ = invalidPlan("weight {} is not resident where it is read",
                          text(w.name()));
  return {status_.isOk() ? pointerTo<const uint8_t>(memory_.weights +
                                                    weights_.offset(index))
                         : nullptr,
          w.outer(),
          w.rows(),
          w.cols(),
          w.outer_stride(),
          w.row_stride(),
          moek::Format(w.format())};
}

moek::KvView CudaOperands::cache(std::string_view name) const {
  const fb::Kv &kv = op_.cache(name);
  auto type = moek::KvType(kv.type());
  return {pointerTo<uint8_t>(memory_.kv + kv.offset()), kv.width(),
          kv.capacity(), moek::kvRowBytes(type, kv.width()), type};
}

moek::GemmFn CudaOperands::gemm(std::string_view) const {
  return moek::cuda::gemmOnGpu();
}

} // namespace moert
