#include "runtime/plan/States.h"

#include "kernels/OpCode.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Verify.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>

namespace moert {

int64_t stateBytes(const fb::Plan &plan) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < count(plan.kv()); ++i)
    if (plan.kv()->Get(i)->row_per_sequence())
      bytes += cacheBytes(*plan.kv()->Get(i));
  return bytes;
}

namespace {
/// Returns the elements that the instruction appends to cache `index`, or 0.
int64_t appended(const fb::Phase &phase, const fb::Instruction &inst,
                 uint32_t index) {
  using moek::OpCode;
  auto op = OpCode(inst.op());
  if (op != OpCode::KvStore && op != OpCode::RowStore)
    return 0;
  const OpSpec &spec = *findOp(inst.op());
  const fb::Operand &kv =
      *inst.operands()->Get(uint32_t(spec.operands.size() - 1));
  if (kv.kind() != fb::OperandKind::Kv || kv.index() != index)
    return 0;
  if (op == OpCode::KvStore) {
    // The values are not proven yet and can be anything in a damaged plan.
    auto size = [&](std::string_view name) {
      return std::clamp<int64_t>(intOf(inst, spec, name), 0, kMaxParameter);
    };
    return moek::gqaKvWidth(size("heads"), size("key"), size("value"));
  }
  const fb::Buffer &x = *phase.buffers()->Get(inst.operands()->Get(0)->index());
  return x.cols() * x.rows_per_token();
}
} // namespace

int64_t ringRowWidth(const fb::Plan &plan, uint32_t index) {
  if (!plan.kv()->Get(index)->row_per_sequence())
    return 0;
  for (const fb::Phase *phase : *plan.phases())
    for (const fb::Instruction *inst : *phase->instructions())
      if (int64_t width = appended(*phase, *inst, index))
        return width;
  return 0;
}

} // namespace moert
