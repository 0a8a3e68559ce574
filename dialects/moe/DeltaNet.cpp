//===- DeltaNet.cpp - Ops of gated delta nets -----------------------------===//
//
// Verifiers and instructions.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/InstructionBuilders.h"
#include "dialects/moe/MoeWork.h"
#include "kernels/KvCache.h"

#include <numeric>

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

LogicalResult RegroupOp::verify() {
  OpChecks checks(*this);
  ArrayRef<int64_t> parts = getParts();
  checks.size("groups", getGroups())
      .range("number of parts", 1, 3, int64_t(parts.size()))
      .tokens({getX(), getResult()});
  for (int64_t part : parts)
    checks.size("part", part);
  if (failed(checks.result()))
    return failure();
  int64_t groups = getGroups(), offset = getOffset();
  int64_t all = std::accumulate(parts.begin(), parts.end(), int64_t(0));
  checks.multiple("x columns", groups, "groups", columns(getX()));
  if (failed(checks.result()))
    return failure();
  return checks.range("offset", 0, columns(getX()) / groups - all, offset)
      .equal("result columns", groups * all, "(groups * parts)",
             columns(getResult()))
      .result();
}

Instructions RegroupOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  SmallVector<int64_t, 3> parts(getParts());
  parts.resize(3, 0);
  list.add(inst::Regroup{.x = getX(),
                         .out = getResult(),
                         .groups = getGroups(),
                         .offset = getOffset(),
                         .first = parts[0],
                         .second = parts[1],
                         .third = parts[2]},
           moving(0, 2 * rowBytes(double(execution.tokens), {getResult()})));
  return list;
}

//===----------------------------------------------------------------------===//
// The net
//===----------------------------------------------------------------------===//

LogicalResult DeltaNetOp::verify() {
  OpChecks checks(*this);
  int64_t keyHeads = getKeyHeads(), heads = getHeads();
  int64_t key = getKey(), value = getValue();
  checks.size("key_heads", keyHeads)
      .size("heads", heads)
      .size("key", key)
      .size("value", value)
      .range("layer", 0, INT32_MAX, getLayer())
      .positive("eps", getEps().convertToDouble(), /*zeroToo=*/true)
      .tokens({getX(), getBeta(), getAlpha(), getResult()})
      .weight("conv", getConv().getType(), 2)
      .multiple("heads", keyHeads, "key_heads", heads);
  if (failed(checks.result()))
    return failure();
  int64_t all = 2 * keyHeads * key + heads * value;
  return checks
      .equal("x columns", all, "(2 * key_heads * key + heads * value)",
             columns(getX()))
      .equal("conv rows", all, "to match x columns", dim(getConv(), 0))
      .range("conv columns", 1, moek::kMaxTaps, dim(getConv(), 1))
      .equal("beta columns", heads, "to match heads", columns(getBeta()))
      .equal("alpha columns", heads, "to match heads", columns(getAlpha()))
      .equal("a length", heads, "to match heads", columns(getA()))
      .equal("dt length", heads, "to match heads", columns(getDt()))
      .equal("result columns", heads * value, "(heads * value)",
             columns(getResult()))
      .result();
}

int64_t DeltaNetOp::getStateLayer() { return int64_t(getLayer()); }

int64_t DeltaNetOp::getStateWidth() {
  return moek::deltaStateWidth(dim(getConv(), 1), columns(getX()), getHeads(),
                               getKey(), getValue());
}

/// The state of each sequence is read and written once per step.
Instructions DeltaNetOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double rows = double(execution.tokens), taps = double(dim(getConv(), 1));
  double sequences = double(sequencesOf(*this, execution.tokens));
  double heads = double(getHeads()), all = double(columns(getX()));
  double matrices = heads * double(getKey()) * double(getValue());
  InstructionWork convolving =
      moving(rows * all * (2 * taps + 4), 2 * rowBytes(rows, {getX()}));
  convolving.weightBytes = all * taps * kF32Bytes;
  convolving.kvBytes = 2 * sequences * (taps - 1) * all * kF32Bytes;
  InstructionWork gating =
      moving(10 * rows * heads, 2 * rowBytes(rows, {getBeta(), getAlpha()}));
  gating.weightBytes = 2 * heads * kF32Bytes;
  // Seven operations per element: the product with the decay, and one
  // multiply-add each for reading with the key, for the update, and for reading
  // with the query.
  InstructionWork ruling =
      moving(7 * rows * matrices, rowBytes(rows, {getX(), getResult()}));
  ruling.kvBytes = 2 * sequences * matrices * kF32Bytes;

  Temporary convolved = list.temporary(".conv", columns(getX()));
  Temporary gates = list.temporary(".gates", 2 * int64_t(getHeads()));
  list.add(inst::ShortConv{.x = getX(),
                           .weight = getConv(),
                           .state = Operand::state(),
                           .out = convolved,
                           .taps = columns(getConv())},
           convolving);
  list.add(inst::DeltaGates{.beta = getBeta(),
                            .alpha = getAlpha(),
                            .a = getA(),
                            .dt = getDt(),
                            .out = gates},
           gating);
  list.add(inst::DeltaRule{.x = convolved,
                           .gates = gates,
                           .state = Operand::state(),
                           .out = getResult(),
                           .key_heads = getKeyHeads(),
                           .heads = getHeads(),
                           .key = getKey(),
                           .value = getValue(),
                           .begin = moek::deltaStateBegin(columns(getConv()),
                                                          columns(getX())),
                           .tiled = getTiled(),
                           .eps = getEps()},
           ruling);
  return list;
}
