//===- Instruction.cpp - The instructions that an op becomes --------------===//

#include "dialects/moe/InstructionBuilders.h"
#include "dialects/moe/MoeVerify.h"

using namespace mlir;
using namespace mlir::moe;

#define MOE_OP(op, name, number, kind)                                         \
  inst::op::operator Instruction() const {                                     \
    Instruction to{moek::OpCode::op};
#define MOE_OPERAND(name, role, ...) to.operands.push_back(name);
#define MOE_INT(name, ...) to.ints.push_back(name.value);
#define MOE_FLOAT(name, ...) to.floats.push_back(name.value);
#define MOE_OP_END                                                             \
  return to;                                                                   \
  }
#include "kernels/Ops.def"

//===----------------------------------------------------------------------===//
// One instruction
//===----------------------------------------------------------------------===//

const moert::OpSpec &Instruction::spec() const {
  return *moert::findOp(unsigned(op));
}

int64_t Instruction::integer(std::string_view name) const {
  auto found = llvm::find(spec().ints, name);
  assert(found != spec().ints.end() && "no such parameter in kernels/Ops.def");
  return ints[size_t(found - spec().ints.begin())];
}

SmallVector<Value, 2> Instruction::gemmWeights() const {
  SmallVector<Value, 2> weights;
  for (auto [operand, spec] : llvm::zip_equal(operands, spec().operands))
    if (spec.gemm && operand.kind() != Operand::Kind::Absent)
      weights.push_back(operand.value());
  return weights;
}

const Operand *Instruction::activation() const {
  const auto *found = llvm::find_if(operands, [](const Operand &operand) {
    return operand.form() == Operand::Form::Activation;
  });
  return found == operands.end() ? nullptr : found;
}

//===----------------------------------------------------------------------===//
// All instructions of an op
//===----------------------------------------------------------------------===//

Temporary Instructions::temporary(StringRef suffix, int64_t cols,
                                  moek::Encoding encoding, int64_t rowsPerToken,
                                  int64_t fixedRows) {
  buffers_.push_back(
      {{}, suffix.str(), encoding, cols, rowsPerToken, fixedRows});
  return {unsigned(buffers_.size() - 1)};
}

void Instructions::declare(Value result, StringRef suffix, StringRef device) {
  auto type = cast<RankedTensorType>(result.getType());
  buffers_.push_back({result, suffix.str(),
                      type.getElementType().isF32() ? moek::Encoding::F32
                                                    : moek::Encoding::I32,
                      type.getRank() == 1 ? 1 : columns(result),
                      /*rowsPerToken=*/1, /*fixedRows=*/0, device});
}

bool Instructions::reuse(Value result, Value x) {
  bool dies = diesIn(op_, x);
  if (dies)
    overwrite(result, x);
  return dies;
}

void Instructions::add(Instruction instruction, InstructionWork work) {
  auto isNew = [&](Value value) {
    return value && value.getDefiningOp() == op_ &&
           isa<RankedTensorType>(value.getType()) &&
           llvm::none_of(buffers_,
                         [&](const BufferShape &buffer) {
                           return buffer.result == value;
                         }) &&
           llvm::none_of(overwritten_, [&](const Overwrite &overwrite) {
             return overwrite.result == value;
           });
  };
  // One of several results is named after the operand that writes it.
  for (auto [operand, spec] :
       llvm::zip_equal(instruction.operands, instruction.spec().operands))
    if (operand.kind() == Operand::Kind::Value && isNew(operand.value()))
      declare(operand.value(), op_->getNumResults() == 1
                                   ? std::string()
                                   : "." + std::string(spec.name));
  list_.push_back(std::move(instruction));
  list_.back().work = std::move(work);
}

Cost moe::sumWork(const Instructions &instructions) {
  Cost cost;
  for (const Instruction &instruction : instructions)
    cost += instruction.work.cost();
  return cost;
}

bool moe::diesIn(Operation *op, Value x) {
  // A block argument is the caller's buffer.
  Operation *producer = x ? x.getDefiningOp() : nullptr;
  if (!producer || producer->getBlock() != op->getBlock())
    return false;
  return llvm::count(op->getOperands(), x) == 1 &&
         llvm::all_of(x.getUsers(), [&](Operation *user) {
           return user == op || (user->getBlock() == op->getBlock() &&
                                 user->isBeforeInBlock(op));
         });
}

bool moe::isGrouped(Value ids) {
  return ids.use_empty() || llvm::any_of(ids.getUsers(), [](Operation *user) {
           if (auto transfer = dyn_cast<TransferOp>(user))
             return isGrouped(transfer.getResult());
           if (isa<SplitChoicesOp>(user))
             return false; // This class has its own lists of results.
           auto experts = dyn_cast<ExpertsOp>(user);
           return !experts || !experts.getSliceAttr();
         });
}
