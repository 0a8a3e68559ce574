#include "runtime/device/cuda/RingShape.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>

namespace moert {

RingShape ringShape(uint64_t streamed, uint64_t most) {
  constexpr uint64_t kLine = 64;
  RingShape shape;
  most = std::min(most, alignUp(streamed, 2 * kLine));
  shape.slotBytes = std::min(kRingSlotBytes, most / 2 / kLine * kLine);
  if (shape.slotBytes > 0)
    shape.slots = most / shape.slotBytes;
  return shape;
}

std::map<uint32_t, RingShape> ringsOf(const fb::Plan &plan, uint32_t device,
                                      uint64_t most) {
  // Pairs of weight and device.
  std::set<std::pair<uint32_t, uint32_t>> streamed;
  for (uint32_t i = 0; i < count(plan.residency()); ++i)
    if (const fb::Residency &entry = *plan.residency()->Get(i);
        entry.mode() == fb::ResidencyMode::Streamed)
      streamed.insert({entry.weight(), entry.device()});
  std::map<uint32_t, uint64_t> bytes; // By queue, of the phase with most.
  for (const fb::Phase *phase : *plan.phases()) {
    std::map<uint32_t, uint64_t> ofPhase;
    for (uint32_t i = 0; i < count(phase->instructions()); ++i) {
      const fb::Instruction &one = *phase->instructions()->Get(i);
      for (uint32_t k = 0; k < count(one.operands()); ++k)
        if (const fb::Operand &operand = *one.operands()->Get(k);
            operand.kind() == fb::OperandKind::Weight &&
            streamed.contains({operand.index(), deviceOf(plan, one)}))
          ofPhase[one.queue()] +=
              uint64_t(plan.weights()->Get(operand.index())->outer() *
                       plan.weights()->Get(operand.index())->outer_stride());
    }
    for (auto [queue, sum] : ofPhase)
      bytes[queue] = std::max(bytes[queue], sum);
  }
  std::map<uint32_t, RingShape> rings;
  for (auto [queue, sum] : bytes)
    if (plan.queues()->Get(queue)->device() == device)
      rings[queue] = ringShape(sum, most / bytes.size());
  return rings;
}

} // namespace moert
