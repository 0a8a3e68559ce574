#include "passes/PlanHazards.h"

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

bool plan::overlap(Value a, Value b, int64_t tokens) {
  if (a == b)
    return true;
  auto first = a.getDefiningOp<BufferOp>(),
       second = b.getDefiningOp<BufferOp>();
  // Caches of different layers are apart.
  if (!first || !second || first.getDevice() != second.getDevice() ||
      !first.getOffset() || !second.getOffset())
    return false;
  return *first.getOffset() < *second.getOffset() + second.getBytes(tokens) &&
         *second.getOffset() < *first.getOffset() + first.getBytes(tokens);
}

bool plan::isPerWorker(Value region) {
  auto buffer = region.getDefiningOp<BufferOp>();
  return buffer && buffer.getPerWorker();
}

bool Epoch::conflictsWith(ArrayRef<Access> accesses) const {
  return llvm::any_of(accesses, [&](const Access &access) {
    return !isPerWorker(access.region) &&
           llvm::any_of(writes_, [&](const auto &earlier) {
             return (access.writes || earlier.second) &&
                    overlap(access.region, earlier.first, tokens_);
           });
  });
}

void Epoch::add(ArrayRef<Access> accesses) {
  for (const Access &access : accesses)
    if (!isPerWorker(access.region))
      writes_[access.region] |= access.writes;
}
