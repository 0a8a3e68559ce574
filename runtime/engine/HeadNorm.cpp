#include "runtime/engine/HeadNorm.h"

#include "runtime/plan/PlanAccess.h"

#include <cmath>
#include <cstring>

namespace moert {

/// Returns the only instruction that reads buffer `number` of the phase; null
/// if there are several or none.
static const fb::Instruction *readerOf(const fb::Phase &phase,
                                       uint32_t number) {
  const fb::Instruction *found = nullptr;
  for (const fb::Instruction *instruction : *phase.instructions()) {
    const OpSpec &spec = *findOp(instruction->op());
    for (uint32_t i = 0; i < spec.operands.size(); ++i) {
      const fb::Operand &operand = *instruction->operands()->Get(i);
      if (operand.kind() != fb::OperandKind::Buffer ||
          operand.index() != number ||
          spec.operands[i].role != OperandRole::Read)
        continue;
      if (found)
        return nullptr;
      found = instruction;
    }
  }
  return found;
}

/// Returns the only instruction that reads the phase's input, or a copy of it
/// on another device, if it is an RMS norm of whole rows.
static const fb::Instruction *findNorm(const fb::Phase &phase) {
  const fb::Instruction *found = readerOf(phase, phase.input());
  if (found && moek::OpCode(found->op()) == moek::OpCode::Copy)
    found = readerOf(phase, found->operands()->Get(1)->index());
  if (!found || moek::OpCode(found->op()) != moek::OpCode::RmsNorm)
    return nullptr;
  return intOf(*found, *findOp(found->op()), "groups") == 1 ? found : nullptr;
}

std::optional<HeadNorm> HeadNorm::find(const Plan &plan,
                                       const WeightFiles &files) {
  const fb::Plan &table = plan.table();
  for (const fb::Phase *phase : *table.phases()) {
    if (kindOf(*phase) != PhaseKind::Logits)
      continue;
    const fb::Instruction *norm = findNorm(*phase);
    if (!norm)
      return std::nullopt;
    HeadNorm result;
    result.eps_ = norm->floats()->Get(0);
    const fb::Operand &operand = *norm->operands()->Get(1);
    if (operand.kind() == fb::OperandKind::Weight) {
      const fb::Weight &weight = *table.weights()->Get(operand.index());
      if (moek::Format(weight.format()) != moek::Format::F32 ||
          weight.cols() != table.hidden())
        return std::nullopt;
      result.weight_.resize(size_t(weight.cols()));
      std::memcpy(result.weight_.data(),
                  files.bytes(weight.file()).data() + weight.offset(),
                  result.weight_.size() * sizeof(float));
    }
    return result;
  }
  return std::nullopt;
}

std::span<const float> HeadNorm::apply(std::span<const float> row) {
  double squares = 0;
  for (float value : row)
    squares += double(value) * value;
  const double scale = 1 / std::sqrt(squares / double(row.size()) + eps_);
  result_.resize(row.size());
  for (size_t i = 0; i < row.size(); ++i)
    result_[i] =
        float(row[i] * scale * (weight_.empty() ? 1.0 : double(weight_[i])));
  return result_;
}

} // namespace moert
