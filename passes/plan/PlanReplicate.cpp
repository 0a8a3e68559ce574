#include "llvm/ADT/DenseSet.h"
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

SmallVector<Value> writtenBy(InstOp inst) {
  SmallVector<Value> regions;
  for (const Access &access : accessesOf(inst))
    if (access.writes)
      regions.push_back(access.region);
  return regions;
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
    BindOp bind = phase.getBind();
    llvm::DenseSet<Value> shared{bind.getOutput()};
    for (Value input : bind.getInputs())
      shared.insert(input);
    SmallVector<InstOp> small;
    for (InstOp inst : phase.getBody().getOps<InstOp>()) {
      if (isSmall(inst, phase.getMaxTokens()))
        small.push_back(inst);
      else
        for (Value region : writtenBy(inst))
          shared.insert(region);
      // Buffers that a copy to or from another device uses are shared.
      for (const Access &access : accessesOf(inst))
        if (auto buffer = access.region.getDefiningOp<BufferOp>();
            buffer && buffer.getDevice() != inst.getDevice())
          shared.insert(buffer);
    }
    // The results of an instruction are either all shared or all per worker.
    auto sharesResult = [&](InstOp inst) {
      SmallVector<Value> written = writtenBy(inst);
      if (llvm::none_of(written, [&](Value v) { return shared.contains(v); }))
        return false;
      shared.insert(written.begin(), written.end());
      return true;
    };
    size_t before;
    do {
      before = small.size();
      llvm::erase_if(small, sharesResult);
    } while (small.size() != before);
    numReplicated += small.size();
    for (InstOp inst : small)
      for (Value region : writtenBy(inst))
        region.getDefiningOp<BufferOp>().setPerWorker(true);
  }
};

} // namespace
