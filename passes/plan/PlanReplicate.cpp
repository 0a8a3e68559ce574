#include "passes/plan/PlanHazards.h"
#include "passes/plan/PlanPasses.h"

namespace mlir::plan {
#define GEN_PASS_DEF_PLANREPLICATEPASS
#include "passes/plan/PlanPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::plan;
using moert::OperandRole;

namespace {

/// Returns the bytes of an operand in a step of `tokens` tokens.
int64_t bytesOf(Value operand, int64_t tokens) {
  if (auto buffer = operand.getDefiningOp<BufferOp>())
    return buffer.getBytes(tokens);
  if (auto constant = operand.getDefiningOp<ConstantOp>())
    return int64_t(constant.getValues().size() * sizeof(float));
  return shapeOf(operand).bytes();
}

bool isOnCpu(InstOp inst) {
  return inst.getDevice().getDefiningOp<DeviceOp>().getKind() ==
         DeviceKind::Cpu;
}

struct PlanReplicate : plan::impl::PlanReplicatePassBase<PlanReplicate> {
  using PlanReplicatePassBase::PlanReplicatePassBase;

  void runOnOperation() override {
    getOperation()->walk([&](PhaseOp phase) {
      if (phase.getMaxTokens() <= maxTokens)
        replicate(phase);
    });
  }

private:
  bool isSmall(InstOp inst, int64_t tokens) {
    if (!isOnCpu(inst))
      return false;
    const moert::OpSpec &spec = *inst.getSpec();
    int64_t bytes = 0;
    for (auto [position, operand] : llvm::enumerate(spec.operands)) {
      Value value = inst.getArgument(position);
      if (!value)
        continue;
      if (operand.gemm || isa<KvType>(value.getType()))
        return false;
      bytes += bytesOf(value, tokens);
    }
    return bytes <= maxBytes;
  }

  void replicate(PhaseOp phase) {
    PhaseSteps all(phase);
    std::vector<bool> shared(all.regions.size());
    auto share = [&](Value region) {
      if (const auto *it = all.regions.find(region); it != all.regions.end())
        shared[size_t(it->second)] = true;
    };
    BindOp bind = phase.getBind();
    share(bind.getOutput());
    for (Value input : bind.getInputs())
      share(input);
    for (auto [inst, step] : llvm::zip_equal(all.insts, all.steps)) {
      step.isSmall = isSmall(inst, phase.getMaxTokens());
      // Buffers that a copy to or from another device uses are shared.
      for (const Access &access : accessesOf(inst))
        if (auto buffer = access.region.getDefiningOp<BufferOp>();
            buffer && buffer.getDevice() != inst.getDevice())
          share(buffer);
    }
    std::vector<bool> perWorker =
        moec::regionsPerWorker(all.steps, std::move(shared));
    for (auto [region, index] : all.regions)
      if (perWorker[size_t(index)])
        region.getDefiningOp<BufferOp>().setPerWorker(true);
    numReplicated += llvm::count_if(all.steps, [&](const moec::Step &step) {
      return llvm::any_of(step.uses, [&](moec::RegionUse use) {
        return use.writes && perWorker[size_t(use.region)];
      });
    });
  }
};

} // namespace
