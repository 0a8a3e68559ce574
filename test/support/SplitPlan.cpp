#include "test/support/SplitPlan.h"

#include "kernels/Activation.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace moetest {

namespace fb = moert::fb;
using moert::OperandRole;

namespace {
bool accumulates(const fb::InstructionT &instruction,
                 const moert::OpSpec &spec) {
  for (size_t i = 0; i < spec.ints.size(); ++i)
    if (spec.ints[i] == "accumulate")
      return instruction.ints[i] != 0;
  return true;
}

} // namespace

std::vector<Access> accessesOf(const fb::PlanT &plan, const fb::PhaseT &phase,
                               const fb::InstructionT &instruction) {
  std::vector<Access> result;
  const moert::OpSpec &spec = *moert::findOp(instruction.op);
  for (size_t i = 0; i < spec.operands.size(); ++i) {
    const fb::Operand &operand = instruction.operands[i];
    OperandRole role = spec.operands[i].role;
    bool writes = role == OperandRole::Write ||
                  role == OperandRole::ReadWrite ||
                  role == OperandRole::KvWrite;
    bool reads = !writes || (role == OperandRole::ReadWrite &&
                             accumulates(instruction, spec));
    if (operand.kind() == fb::OperandKind::Kv) {
      const fb::KvT &kv = *plan.kv[operand.index()];
      result.push_back({1, kv.device, kv.offset, kv.offset + 1, reads, writes,
                        operand.index()});
    } else if (operand.kind() == fb::OperandKind::Buffer) {
      const fb::BufferT &b = *phase.buffers[operand.index()];
      uint64_t bytes =
          uint64_t(b.rows_per_token * phase.max_tokens + b.fixed_rows) *
          uint64_t(moek::encodedRowBytes(moek::Encoding(b.encoding), b.cols));
      if (!b.per_worker)
        result.push_back({0, b.device, b.offset, b.offset + bytes, reads,
                          writes, operand.index()});
    }
  }
  return result;
}

namespace {
class PhaseSplitter {
public:
  PhaseSplitter(fb::PlanT &plan, fb::PhaseT &phase)
      : plan_(plan), phase_(phase) {
    size_t buffers = phase.buffers.size();
    for (size_t i = 0; i < buffers; ++i) {
      auto twin = std::make_unique<fb::BufferT>(*phase.buffers[i]);
      twin->device = 1;
      twin->name += ".1";
      phase.buffers.push_back(std::move(twin));
    }
    twins_ = uint32_t(buffers);
    for (uint32_t i = 0; i < buffers; ++i)
      valid_.push_back({i == phase.input, false});
  }

  void split(const DeviceChoice &choice,
             std::map<uint32_t, uint32_t> &cacheHomes) {
    auto list = std::move(phase_.instructions);
    phase_.instructions.clear();
    for (auto &instruction : list) {
      uint32_t device = choice(phase_, *instruction);
      std::vector<Access> accesses = accessesOf(plan_, phase_, *instruction);
      for (const Access &access : accesses)
        if (access.space == 1) {
          device = cacheHomes.try_emplace(access.index, device).first->second;
          plan_.kv[access.index]->device = device;
        }
      for (const Access &access : accesses)
        if (access.space == 0 && access.reads)
          bring(access.index, device);
      for (const Access &access : accesses)
        if (access.space == 0 && access.writes)
          written(access, device);
      instruction->queue = device;
      for (fb::Operand &operand : instruction->operands)
        if (operand.kind() == fb::OperandKind::Buffer && device == 1)
          operand = fb::Operand(operand.kind(), operand.index() + twins_);
      phase_.instructions.push_back(std::move(instruction));
    }
    bring(phase_.output, 0);
  }

private:
  /// A write makes other buffers in the same bytes invalid on that device, and
  /// this one on the other.
  void written(const Access &access, uint32_t device) {
    uint64_t begin = access.begin, end = access.end;
    for (uint32_t i = 0; i < twins_; ++i) {
      const fb::BufferT &b = *phase_.buffers[i];
      uint64_t bytes =
          uint64_t(b.rows_per_token * phase_.max_tokens + b.fixed_rows) *
          uint64_t(moek::encodedRowBytes(moek::Encoding(b.encoding), b.cols));
      if (b.offset < end && begin < b.offset + bytes)
        valid_[i][device] = false;
    }
    valid_[access.index] = {device == 0, device == 1};
  }

  void bring(uint32_t buffer, uint32_t device) {
    if (valid_[buffer][device] || !valid_[buffer][1 - device])
      return;
    auto copy = std::make_unique<fb::InstructionT>();
    copy->op = uint8_t(moek::OpCode::Copy);
    copy->queue = device;
    auto name = std::ranges::find(plan_.kernels, "copy_ref");
    if (name == plan_.kernels.end())
      name = plan_.kernels.insert(name, "copy_ref");
    copy->kernels.push_back(uint32_t(name - plan_.kernels.begin()));
    for (uint32_t end : {1 - device, device})
      copy->operands.emplace_back(fb::OperandKind::Buffer,
                                  buffer + end * twins_);
    phase_.instructions.push_back(std::move(copy));
    valid_[buffer][device] = true;
  }

  fb::PlanT &plan_;
  fb::PhaseT &phase_;
  uint32_t twins_ = 0; ///< Index of the second device's first buffer.
  /// For each buffer: whether each device has its contents.
  std::vector<std::array<bool, 2>> valid_;
};
} // namespace

void orderQueues(const fb::PlanT &plan, fb::PhaseT &phase) {
  size_t queues = plan.queues.size();
  std::vector<std::vector<uint32_t>> known(queues,
                                           std::vector<uint32_t>(queues));
  std::vector<uint32_t> position(phase.instructions.size());
  std::vector<std::vector<uint32_t>> ended;
  std::vector<std::vector<size_t>> members(queues);
  std::vector<std::vector<Access>> accesses;
  std::vector<std::vector<size_t>> waits(phase.instructions.size());
  std::set<size_t> signals;
  for (size_t i = 0; i < phase.instructions.size(); ++i) {
    fb::InstructionT &instruction = *phase.instructions[i];
    uint32_t queue = instruction.queue;
    accesses.push_back(accessesOf(plan, phase, instruction));
    std::vector<uint32_t> needed(queues);
    for (size_t j = 0; j < i; ++j)
      for (const Access &a : accesses[j])
        for (const Access &b : accesses[i])
          if (a.conflicts(b))
            needed[phase.instructions[j]->queue] = position[j];
    std::vector<size_t> candidates;
    for (size_t other = 0; other < queues; ++other)
      if (other != queue && needed[other] > known[queue][other])
        candidates.push_back(members[other][needed[other] - 1]);
    for (size_t wait : candidates) {
      uint32_t waited = phase.instructions[wait]->queue;
      if (std::ranges::none_of(candidates, [&](size_t other) {
            return other != wait && ended[other][waited] >= position[wait];
          }))
        waits[i].push_back(wait);
    }
    for (size_t wait : waits[i]) {
      signals.insert(wait);
      for (size_t other = 0; other < queues; ++other)
        known[queue][other] = std::max(known[queue][other], ended[wait][other]);
    }
    instruction.barrier = needed[queue] > known[queue][queue];
    members[queue].push_back(i);
    position[i] = uint32_t(members[queue].size());
    if (instruction.barrier)
      known[queue][queue] = position[i] - 1;
    ended.push_back(known[queue]);
    ended.back()[queue] = position[i];
  }
  phase.events = 0;
  for (size_t i = 0; i < phase.instructions.size(); ++i) {
    fb::InstructionT &instruction = *phase.instructions[i];
    instruction.waits.clear();
    for (size_t wait : waits[i])
      instruction.waits.push_back(uint32_t(phase.instructions[wait]->signal));
    std::ranges::sort(instruction.waits);
    instruction.signal =
        signals.contains(i) ? int32_t(phase.events++) : int32_t(-1);
  }
}

void splitPlan(fb::PlanT &plan, const DeviceChoice &choice) {
  plan.devices.push_back(std::make_unique<fb::DeviceT>(*plan.devices[0]));
  plan.devices[1]->name = "cpu1";
  plan.queues.push_back(std::make_unique<fb::QueueT>());
  plan.queues[1]->device = 1;
  std::map<uint32_t, uint32_t> cacheHomes;
  for (auto &phase : plan.phases)
    PhaseSplitter(plan, *phase).split(choice, cacheHomes);
  std::set<std::pair<uint32_t, uint32_t>> read;
  for (auto &phase : plan.phases) {
    orderQueues(plan, *phase);
    for (const auto &instruction : phase->instructions)
      for (const fb::Operand &operand : instruction->operands)
        if (operand.kind() == fb::OperandKind::Weight)
          read.emplace(operand.index(),
                       plan.queues[instruction->queue]->device);
  }
  plan.residency.clear();
  for (auto [weight, device] : read)
    plan.residency.emplace_back(weight, device, fb::ResidencyMode::Resident);
}

} // namespace moetest
