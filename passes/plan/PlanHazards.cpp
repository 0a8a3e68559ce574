#include "passes/plan/PlanHazards.h"

using namespace mlir;
using namespace mlir::plan;
using moert::OperandRole;

SmallVector<Access> plan::accessesOf(InstOp inst) {
  SmallVector<Access> accesses;
  const moert::OpSpec &spec = *inst.getSpec();
  for (auto [position, operand] : llvm::enumerate(spec.operands)) {
    Value value = inst.getArgument(position);
    if (!value)
      continue;
    switch (operand.role) {
    case OperandRole::Read:
    case OperandRole::KvRead:
      accesses.push_back({value, false});
      break;
    case OperandRole::Write:
    case OperandRole::ReadWrite:
    case OperandRole::KvWrite:
      accesses.push_back({value, true});
      break;
    case OperandRole::Weight:
    case OperandRole::Constant:
      break;
    }
  }
  return accesses;
}

bool plan::isPerWorker(Value region) {
  auto buffer = region.getDefiningOp<BufferOp>();
  return buffer && buffer.getPerWorker();
}

InstOp plan::rebuild(InstOp inst, ValueRange waits, bool signals) {
  OpBuilder builder(inst);
  auto made = builder.create<InstOp>(
      inst.getLoc(), signals ? Type(EventType::get(inst.getContext())) : Type(),
      inst.getOp(), inst.getQueue(), inst.getKernels(), inst.getArguments(),
      inst.getModules(), waits, inst.getPresent(), inst.getInts(),
      inst.getFloats(), inst.getBarrier(), inst.getExplain(),
      inst.getWorkAttr(), inst.getLaunchSizes());
  if (inst.getEvent())
    inst.getEvent().dropAllUses();
  inst.erase();
  return made;
}

PhaseSteps::PhaseSteps(PhaseOp phase) {
  for (InstOp inst : phase.getBody().getOps<InstOp>()) {
    auto device = inst.getDevice().getDefiningOp<DeviceOp>();
    moec::Step step;
    step.queue =
        queues.insert({inst.getQueue(), int32_t(queues.size())}).first->second;
    step.onGpu = device.getKind() == DeviceKind::Cuda;
    constexpr int64_t kLongCopy = 4096; // Limit in bytes per token.
    step.isLarge = inst.getSpec()->kind == moert::OpKind::Copies
                       ? inst.getArgument(0).getDefiningOp<BufferOp>().getBytes(
                             1) > kLongCopy
                       : inst.getKernels().size() > 1;
    step.runsLast = inst->hasAttr(kRunLastAttr);
    SmallVector<moec::RegionUse> uses;
    for (const Access &access : accessesOf(inst)) {
      auto [region, isNew] =
          regions.insert({access.region, int32_t(regions.size())});
      if (isNew)
        perWorker.push_back(isPerWorker(access.region));
      uses.push_back({region->second, access.writes});
    }
    step.uses = ArrayRef(uses).copy(memory);
    insts.push_back(inst);
    steps.push_back(std::move(step));
  }
}

/// Returns, for each region, those that share bytes with it, itself included,
/// in steps of `tokens` tokens.
static std::vector<SmallVector<int32_t>> sharingOf(const PhaseSteps &phase,
                                                   int64_t tokens) {
  /// The bytes of an arena that a buffer takes; empty without an offset.
  struct Bytes {
    Value device;
    int64_t begin = 0, end = 0;
  };
  std::vector<Bytes> bytes(phase.regions.size());
  for (auto [region, index] : phase.regions) {
    auto buffer = region.getDefiningOp<BufferOp>();
    // Caches of different layers share no bytes.
    if (buffer && buffer.getOffset() && !phase.perWorker[size_t(index)])
      bytes[size_t(index)] = {buffer.getDevice(), *buffer.getOffset(),
                              *buffer.getOffset() + buffer.getBytes(tokens)};
  }
  std::vector<SmallVector<int32_t>> sharing(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i)
    for (size_t j = 0; j < bytes.size(); ++j)
      if (i == j ||
          (bytes[i].device == bytes[j].device &&
           bytes[i].begin < bytes[j].end && bytes[j].begin < bytes[i].end))
        sharing[i].push_back(int32_t(j));
  return sharing;
}

std::vector<Ordering> plan::orderingsOf(PhaseOp phase) {
  PhaseSteps steps(phase);
  return moec::orderingsOf(steps.steps, int(steps.queues.size()),
                           steps.perWorker,
                           sharingOf(steps, phase.getMaxTokens()));
}
