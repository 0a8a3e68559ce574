#include "tools/moert/ExpertShares.h"

#include "kernels/Abi.h"
#include "runtime/plan/PlanAccess.h"

#include <numeric>

namespace moert {

namespace {
/// Of an expert_group of some of a layer's experts; null for another.
const OpSpec *sliceSpec(const fb::Instruction &instruction) {
  const OpSpec &spec = *findOp(instruction.op());
  bool isSlice = spec.op == moek::OpCode::ExpertGroup &&
                 intOf(instruction, spec, "count") > 0;
  return isSlice ? &spec : nullptr;
}

moek::ExpertSlice sliceOf(const fb::Plan &plan,
                          const fb::Instruction &instruction,
                          const OpSpec &spec) {
  moek::ExpertSlice slice;
  slice.begin = int32_t(intOf(instruction, spec, "begin"));
  slice.count = int32_t(intOf(instruction, spec, "count"));
  for (uint32_t i = 0; i < spec.operands.size(); ++i)
    if (const fb::Operand &operand = *instruction.operands()->Get(i);
        spec.operands[i].name == "map" &&
        operand.kind() == fb::OperandKind::Constant)
      slice.map = plan.constants()->Get(operand.index())->values()->data();
  return slice;
}
} // namespace

ExpertShares::ExpertShares(const Plan &plan) {
  const fb::Plan &table = plan.table();
  for (uint32_t i = 0; i < count(table.devices()); ++i)
    devices_.emplace_back(text(table.devices()->Get(i)->name()));
  choices_.resize(devices_.size());
  // A slice is the same in all phases.
  const fb::Phase &phase = *table.phases()->Get(0);
  for (const fb::Instruction *instruction : *phase.instructions()) {
    const OpSpec *spec = sliceSpec(*instruction);
    const fb::Explain *op = spec ? opOf(table, *instruction) : nullptr;
    if (!op)
      continue;
    moek::ExpertSlice slice = sliceOf(table, *instruction, *spec);
    int64_t experts = intOf(*instruction, *spec, "experts");
    std::vector<uint32_t> &owners = owners_[op->layer()];
    owners.resize(size_t(experts));
    for (int32_t expert = 0; expert < experts; ++expert)
      if (slice.numberOf(expert) >= 0)
        owners[size_t(expert)] = deviceOf(table, *instruction);
  }
}

void ExpertShares::add(const RouterChoice &choice) {
  auto owners = owners_.find(choice.layer);
  if (owners == owners_.end())
    return;
  for (int32_t id : choice.ids)
    ++choices_[owners->second[size_t(id)]];
}

std::vector<ExpertShares::Share> ExpertShares::shares() const {
  std::vector<uint64_t> experts(devices_.size());
  uint64_t all = 0;
  for (const auto &[layer, owners] : owners_) {
    all += owners.size();
    for (uint32_t owner : owners)
      ++experts[owner];
  }
  uint64_t chosen =
      std::accumulate(choices_.begin(), choices_.end(), uint64_t(0));
  std::vector<Share> shares;
  for (size_t i = 0; i < devices_.size(); ++i)
    if (experts[i] > 0)
      shares.push_back(
          {devices_[i], double(experts[i]) / double(all),
           chosen == 0 ? 0 : double(choices_[i]) / double(chosen)});
  return shares;
}

} // namespace moert
