#include "runtime/device/cuda/CudaLinks.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/device/Devices.h"
#include "runtime/plan/PlanAccess.h"

#include <optional>

namespace moert {

namespace {
/// The buffer of an instruction's operand; null: it is something else.
const fb::Buffer *bufferOf(const fb::Phase &phase,
                           const fb::Instruction &instruction, uint32_t k) {
  const fb::Operand &operand = *instruction.operands()->Get(k);
  return operand.kind() == fb::OperandKind::Buffer
             ? phase.buffers()->Get(operand.index())
             : nullptr;
}

/// The last instruction before `copy` that writes where `x` lies, if it writes
/// all of it.
std::optional<uint32_t> writerOf(const fb::Plan &plan, const fb::Phase &phase,
                                 const fb::Buffer &x, uint32_t copy) {
  DeviceRegion wanted = regionOf(x, phase.max_tokens());
  for (uint32_t i = copy; i-- > 0;) {
    const fb::Instruction &instruction = *phase.instructions()->Get(i);
    const OpSpec &spec = *findOp(instruction.op());
    for (uint32_t k = 0; k < count(instruction.operands()); ++k) {
      const fb::Buffer *buffer = bufferOf(phase, instruction, k);
      OperandRole role = spec.operands[k].role;
      if (!buffer || buffer->device() != x.device() || buffer->per_worker() ||
          (role != OperandRole::Write && role != OperandRole::ReadWrite))
        continue;
      DeviceRegion written = regionOf(*buffer, phase.max_tokens());
      if (written.offset >= wanted.offset + wanted.bytes ||
          wanted.offset >= written.offset + written.bytes)
        continue;
      if (written == wanted && deviceOf(plan, instruction) == x.device())
        return i;
      return std::nullopt;
    }
  }
  return std::nullopt;
}
} // namespace

/// Offsets are in pages of `bytes`, which grow by each.
static std::vector<CudaLink> linksOf(const fb::Plan &table, uint64_t &bytes) {
  auto isGpu = [&](uint32_t device) {
    return table.devices()->Get(device)->kind() == fb::DeviceKind::Cuda;
  };
  std::vector<CudaLink> links;
  for (const fb::Phase *phase : *table.phases())
    for (uint32_t i = 0; i < count(phase->instructions()); ++i) {
      const fb::Instruction &instruction = *phase->instructions()->Get(i);
      if (findOp(instruction.op())->kind != OpKind::Copies)
        continue;
      uint32_t device = deviceOf(table, instruction);
      const fb::Buffer &x = *bufferOf(*phase, instruction, 0);
      if (x.device() == device || !isGpu(device) || !isGpu(x.device()))
        continue;
      std::optional<uint32_t> writer = writerOf(table, *phase, x, i);
      if (!writer)
        continue;
      DeviceRegion region = regionOf(x, phase->max_tokens());
      links.push_back({phase, i, *writer, x.device(), device, region.offset,
                       bytes, region.bytes});
      bytes += alignUp(region.bytes, kRegionAlignment);
    }
  return links;
}

uint64_t cudaLinkBytes(const fb::Plan &plan) {
  uint64_t bytes = 0;
  (void)linksOf(plan, bytes);
  return bytes;
}

StatusOr<std::shared_ptr<const CudaLinks>> CudaLinks::create(const Plan &plan) {
  auto made = std::make_shared<CudaLinks>();
  uint64_t bytes = 0;
  made->links_ = linksOf(plan.table(), bytes);
  MOE_ASSIGN_OR_RETURN(made->pages_,
                       HostMemory::allocate(bytes, "copies between GPUs"));
  return std::shared_ptr<const CudaLinks>(std::move(made));
}

} // namespace moert
