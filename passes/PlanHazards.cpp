#include "passes/PlanHazards.h"

using namespace mlir;
using namespace mlir::plan;
using moert::OperandRole;

/// Whether a ReadWrite operand is read: an op that can either accumulate or
/// overwrite says which.
static bool readsOutput(InstOp inst, const moert::OpSpec &spec) {
  for (auto [name, value] : llvm::zip(spec.ints, inst.getInts()))
    if (name == "accumulate")
      return value != 0;
  return true;
}

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
      accesses.push_back({value, true, false});
      break;
    case OperandRole::Write:
    case OperandRole::KvWrite:
      accesses.push_back({value, false, true});
      break;
    case OperandRole::ReadWrite:
      accesses.push_back({value, readsOutput(inst, spec), true});
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

bool Epoch::conflictsWith(ArrayRef<Access> accesses) const {
  return llvm::any_of(accesses, [&](const Access &access) {
    return llvm::any_of(accesses_, [&](const auto &entry) {
      const Access &earlier = entry.second;
      return (access.writes || earlier.writes) &&
             overlap(access.region, earlier.region, tokens_);
    });
  });
}

void Epoch::add(ArrayRef<Access> accesses) {
  for (const Access &access : accesses) {
    Access &entry =
        accesses_.insert({access.region, {access.region, false, false}})
            .first->second;
    entry.reads |= access.reads;
    entry.writes |= access.writes;
  }
}
