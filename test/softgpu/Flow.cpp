//===- Flow.cpp - Branches, calls, barriers -------------------------------===//
//
// Decodes control flow. The interpreter's loop acts on Op::control.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Flow.h"

#include "test/softgpu/Decoder.h"

namespace softgpu {

static Op &control(Decoder &decoder, Control kind,
                   OpClass opClass = OpClass::Control) {
  Op &op = decoder.begin(nullptr, opClass);
  op.control = kind;
  return op;
}

void decodeBranch(Decoder &decoder) {
  bool uniform = decoder.accept("uni");
  decoder.needOperands(1, 1);
  Op &op = control(decoder, Control::Branch);
  op.isUniform = uniform;
  decoder.branchTo(op, decoder.operand(0).name);
}

void decodeIndexedBranch(Decoder &decoder) {
  decoder.choose({"idx"});
  decoder.accept("uni");
  decoder.needOperands(2, 2);
  Op &op = control(decoder, Control::Indexed);
  op.isStrict = true;
  decoder.source(size_t(0), 4);
  decoder.branchTable(op, decoder.operand(1).name);
}

void decodeCall(Decoder &decoder) {
  decoder.accept("uni");
  decoder.callFunction();
}

void decodeReturn(Decoder &decoder) {
  decoder.accept("uni");
  decoder.leaveFunction();
}

void decodeExit(Decoder &decoder) { control(decoder, Control::Exit); }
void decodeTrap(Decoder &decoder) { control(decoder, Control::Trap); }

void decodeNanosleep(Decoder &decoder) {
  decoder.choose({"u32"});
  control(decoder, Control::Pause);
}

/// Launches run one after another, so that the other grid's memory is complete.
void decodeGridDependency(Decoder &decoder) {
  decoder.needArch(90);
  decoder.choose({"launch_dependents", "wait"});
  decoder.begin([](Warp &, const Op &, Mask) {}, OpClass::Control);
}

/// r: [result], [barrier], [threads], [predicate].
void decodeBarrier(Decoder &decoder) {
  bool isShort = decoder.instruction().opcode == "bar";
  if (decoder.accept("warp")) {
    decoder.choose({"sync"});
    decoder.needOperands(1, 1);
    Op &op = decoder.begin(syncWarp, OpClass::Barrier);
    op.isStrict = true;
    decoder.source(size_t(0), 4);
    decoder.needNamedLanes();
    return;
  }
  if (decoder.accept("cluster"))
    return decodeClusterBarrier(decoder);
  decoder.accept("cta");
  int what = decoder.choose({"sync", "arrive", "red"});
  int reduction = what == 2 ? decoder.choose({"popc", "and", "or"}) : 0;
  bool aligned = decoder.accept("aligned") || isShort;
  if (what == 2)
    decoder.choose({reduction ? "pred" : "u32"});
  decoder.needOperands(what == 2 ? 3 : 1, what == 2 ? 4 : 2);
  Op &op = control(decoder, Control::Barrier, OpClass::Barrier);
  op.isStrict = true;
  op.isUniform = aligned;
  op.kind = uint8_t(what | reduction << 2);
  size_t at = 0, count = decoder.operandCount();
  if (what == 2)
    decoder.result(at++, reduction ? 0 : 4);
  decoder.source(at++, 4);
  if (at < count - (what == 2 ? 1 : 0)) {
    op.imm = 1; // Marks that the number of threads is given.
    decoder.source(at++, 4);
  }
  if (what == 2) {
    op.kind |= decoder.operand(at).negated ? 16 : 0;
    decoder.source(at, 0);
  }
  if (aligned)
    decoder.needAllLanes();
}

} // namespace softgpu
