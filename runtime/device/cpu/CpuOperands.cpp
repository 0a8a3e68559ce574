#include "runtime/device/cpu/CpuOperands.h"

#include "runtime/plan/PlanAccess.h"

namespace moert {

uint8_t *CpuOperands::bytes(std::string_view name) {
  const fb::Buffer &buffer = op_.buffer(name);
  std::byte *base =
      buffer.per_worker() ? own_ : memory_.arenas[buffer.device()];
  if (!base) {
    failToReach(name);
    return nullptr;
  }
  return reinterpret_cast<uint8_t *>(base + buffer.offset());
}

moek::WeightView CpuOperands::weight(std::string_view name) const {
  const fb::Weight &w = op_.weight(name);
  return weightAt(name, files_.bytes(w.file()).data() + w.offset());
}

moek::KvView CpuOperands::cache(std::string_view name) const {
  return cacheIn(name, reinterpret_cast<uint8_t *>(memory_.kv));
}

bool CpuOperands::usable(std::string_view kernel, moek::Isa isa) {
  if (!status_.isOk())
    return false;
  if (isa != moek::Isa::Cuda && moek::hostSupports(isa))
    return true;
  status_ = Status(StatusCode::WrongMachine,
                   fmt::format("kernel {} needs {}, which this machine's CPU "
                               "lacks",
                               kernel, moek::isaName(isa)));
  return false;
}

template <class Function>
Function CpuOperands::present(std::string_view kernel, Function function) {
  if (!function)
    status_ =
        Status(StatusCode::WrongMachine,
               fmt::format("kernel {} is not in this build of moert", kernel));
  return function;
}

moek::GemmFn CpuOperands::gemm(std::string_view operand) {
  const moek::GemmInfo &info = op_.gemm(operand);
  return usable(info.name, info.isa)
             ? present(info.name, moek::resolveGemm(info.name))
             : nullptr;
}

moek::KernelFn CpuOperands::opKernel() {
  const moek::KernelInfo &info = op_.opKernel();
  return usable(info.name, info.isa)
             ? present(info.name, moek::resolveKernel(info.name))
             : nullptr;
}

void CpuOperands::checkScratch() {
  int64_t bytes = op_.spec().scratchBytes(
      [this](std::string_view name) { return op_.integer(name); });
  uint64_t available = plan_.devices()->Get(op_.device())->scratch_bytes();
  if (available < uint64_t(bytes) && status_.isOk())
    status_ = invalidPlan(
        "needs {} bytes of scratch memory per worker, the plan gives {}: "
        "it was compiled for other kernels; compile the model again",
        bytes, available);
}

} // namespace moert
