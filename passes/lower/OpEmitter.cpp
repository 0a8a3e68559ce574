#include "passes/lower/OpEmitter.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;
using Kind = Operand::Kind;
using Form = Operand::Form;

LogicalResult OpEmitter::emit(ArrayRef<SelectedInstruction> selected) {
  if (failed(placeResults()))
    return failure();
  SmallVector<WorkTerms> terms = workTerms(cast<LowerableOpInterface>(op_));
  size_t next = 0;
  for (const SelectedInstruction &each : selected) {
    // `terms` are those of the op itself, without the Quantize instructions
    // that withQuantize() added.
    WorkTerms own;
    if (each.instruction.op != OpCode::Quantize)
      own = terms[next++];
    if (each.instruction.omitted || isMade(each))
      continue;
    if (failed(emitOne(each, own)))
      return failure();
    if (each.instruction.op == OpCode::Copy)
      copyExpertLists(each, own);
  }
  for (auto [ids, offsets, slots] : instructions_.expertLists())
    emitter_.setGroups(ids, {buffer(offsets.index), buffer(slots.index)});
  return success();
}

LogicalResult OpEmitter::placeResults() {
  for (const BufferShape &shape : instructions_.buffers())
    if (!shape.device.empty() &&
        failed(emitter_.tables().device(op_, shape.device)))
      return failure();
  for (auto [result, x] : instructions_.overwritten()) {
    if (!diesIn(op_, x))
      return op_->emitError(
          "expected the value that it overwrites to have no later use");
    emitter_.set(result, emitter_.get(x));
  }
  if (auto cached = dyn_cast<CacheOpInterface>(op_)) {
    FailureOr<Value> kv = emitter_.kv(cached);
    if (failed(kv))
      return failure();
    emitter_.set(cached.getCache(), *kv);
  }
  return success();
}

bool OpEmitter::isMade(const SelectedInstruction &selected) {
  const Operand &out = selected.instruction.operands.back();
  switch (selected.instruction.op) {
  case OpCode::Quantize:
    return bool(quantized(out));
  case OpCode::RopeTable:
    return bool(emitter_.ropeTable(cast<RopeAttr>(out.attribute())));
  default:
    return false;
  }
}

LogicalResult OpEmitter::emitOne(const SelectedInstruction &selected,
                                 const WorkTerms &terms) {
  const Instruction &instruction = selected.instruction;
  SmallVector<Value> operands;
  for (auto [operand, spec] :
       llvm::zip_equal(instruction.operands, instruction.spec().operands)) {
    FailureOr<Value> entry =
        find(operand, spec.role == moert::OperandRole::Weight, selected);
    if (failed(entry))
      return failure();
    operands.push_back(*entry);
  }
  emitter_.inst(selected, terms, operands);
  return success();
}

void OpEmitter::copyExpertLists(const SelectedInstruction &selected,
                                const WorkTerms &terms) {
  PhaseEmitter::Groups from = emitter_.groups(op_->getOperand(0));
  if (!from.offsets)
    return;
  Value device = buffer(0).getDefiningOp<plan::BufferOp>().getDevice();
  auto copy = [&](Value x, StringRef suffix) {
    Value out = emitter_.bufferLike(x, emitter_.label() + suffix,
                                    plan::Encoding::I32, device);
    emitter_.inst(selected, terms, {x, out});
    return out;
  };
  Value offsets = copy(from.offsets, ".offsets");
  emitter_.setGroups(op_->getResult(0), {offsets, copy(from.slots, ".slots")});
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

FailureOr<Value> OpEmitter::find(const Operand &operand, bool isWeight,
                                 const SelectedInstruction &selected) {
  if (operand.kind() == Kind::Value && isWeight)
    return emitter_.weight(operand.value(), selected.layoutOf(operand.value()));
  FailureOr<Value> plain = findPlain(operand);
  if (failed(plain) || operand.form() == Form::Plain ||
      (operand.form() == Form::Activation &&
       !moek::isA8(selected.activation())))
    return plain;
  Value &encoded = quantized(operand);
  if (!encoded)
    encoded = emitter_.encodedLike(*plain);
  return encoded;
}

FailureOr<Value> OpEmitter::findPlain(const Operand &operand) {
  switch (operand.kind()) {
  case Kind::Absent:
    return Value();
  case Kind::Value:
    for (auto [index, shape] : llvm::enumerate(instructions_.buffers()))
      if (shape.result == operand.value())
        return buffer(unsigned(index));
    return emitter_.get(operand.value());
  case Kind::Temporary:
    return buffer(operand.temporary().index);
  case Kind::State:
    return emitter_.state(cast<StateOpInterface>(op_));
  case Kind::RopeTable: {
    auto rope = cast<RopeAttr>(operand.attribute());
    Value &table = emitter_.ropeTable(rope);
    if (!table)
      table = emitter_.buffer("rope_table", plan::Encoding::F32, rope.getDim());
    return table;
  }
  case Kind::RopeFrequencies:
    return emitter_.tables().ropeFrequencies(
        cast<RopeAttr>(operand.attribute()));
  case Kind::ExpertMap:
    return emitter_.tables().constant(
        (emitter_.label() + ".map").str(),
        cast<ExpertSliceAttr>(operand.attribute()).getMap());
  case Kind::Constant: {
    auto numbers = cast<DenseF64ArrayAttr>(operand.attribute()).asArrayRef();
    return emitter_.tables().constant(
        (emitter_.label() + "." + operand.name()).str(),
        SmallVector<Real>(numbers.begin(), numbers.end()));
  }
  case Kind::ExpertOffsets:
  case Kind::ExpertSlots: {
    PhaseEmitter::Groups groups = emitter_.groups(operand.value());
    if (!groups.offsets)
      return op_->emitError("expected ids of a moe.router");
    return operand.kind() == Kind::ExpertOffsets ? groups.offsets
                                                 : groups.slots;
  }
  }
  llvm_unreachable("unknown kind of operand");
}

Value &OpEmitter::quantized(const Operand &operand) {
  return operand.kind() == Kind::Temporary
             ? quantized_[operand.temporary().index]
             : emitter_.encoded(operand.value());
}

Value OpEmitter::buffer(unsigned index) {
  while (buffers_.size() <= index) {
    const BufferShape &shape = instructions_.buffers()[buffers_.size()];
    Value device = shape.device.empty()
                       ? Value()
                       : *emitter_.tables().device(op_, shape.device);
    buffers_.push_back(emitter_.buffer(
        emitter_.label() + shape.suffix, plan::Encoding(shape.encoding),
        shape.cols, shape.rowsPerToken, shape.fixedRows, device));
    if (shape.result)
      emitter_.set(shape.result, buffers_.back());
  }
  return buffers_[index];
}
