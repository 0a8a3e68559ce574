#include "runtime/prove/ProvenOp.h"

#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <cassert>

namespace moert {

ProvenOp::ProvenOp(const fb::Plan &plan, const fb::Phase &phase, uint32_t index)
    : plan_(&plan), phase_(&phase),
      instruction_(phase.instructions()->Get(index)),
      spec_(findOp(instruction_->op())), index_(index) {
  assert(spec_->operands.size() <= kMaxOperands);
}

size_t ProvenOp::position(std::string_view operand) const {
  auto it = std::ranges::find(spec_->operands, operand, &OperandSpec::name);
  assert(it != spec_->operands.end() && "operands are named as in OpTable");
  return size_t(it - spec_->operands.begin());
}

const fb::Operand &ProvenOp::operand(std::string_view name) const {
  return *instruction_->operands()->Get(uint32_t(position(name)));
}

uint32_t ProvenOp::device() const { return deviceOf(*plan_, *instruction_); }

bool ProvenOp::has(std::string_view name) const {
  return operand(name).kind() != fb::OperandKind::None;
}

const fb::Buffer &ProvenOp::buffer(std::string_view name) const {
  return *phase_->buffers()->Get(operand(name).index());
}

const fb::Weight &ProvenOp::weight(std::string_view name) const {
  return *plan_->weights()->Get(operand(name).index());
}

const fb::Kv &ProvenOp::cache(std::string_view name) const {
  return *plan_->kv()->Get(operand(name).index());
}

std::span<const float> ProvenOp::constant(std::string_view name) const {
  const auto *values = plan_->constants()->Get(operand(name).index())->values();
  if (!values)
    return {};
  return {values->data(), values->size()};
}

uint32_t ProvenOp::intPosition(std::string_view name) const {
  auto it = std::ranges::find(spec_->ints, name);
  assert(it != spec_->ints.end() && "parameters are named as in OpTable");
  return uint32_t(it - spec_->ints.begin());
}

int32_t ProvenOp::integer(std::string_view name) const {
  return int32_t(instruction_->ints()->Get(intPosition(name)));
}

float ProvenOp::real(std::string_view name) const {
  auto it = std::ranges::find(spec_->floats, name);
  assert(it != spec_->floats.end() && "parameters are named as in OpTable");
  return float(
      instruction_->floats()->Get(uint32_t(it - spec_->floats.begin())));
}

} // namespace moert
