//===- DeltaNet.cpp - Ops of recurrent layers -----------------------------===//
//
// Verifiers and instructions.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/InstructionBuilders.h"
#include "dialects/moe/MoeWork.h"
#include "kernels/Abi.h"
#include "kernels/Entries.h"
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
// Convolutions
//===----------------------------------------------------------------------===//

LogicalResult ShortConvOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getX()})
      .range("layer", 0, INT32_MAX, getLayer())
      .range("part", 0, INT32_MAX, getPart())
      .range("dilation", 1, moek::kMaxConvRows, getDilation())
      .weight("conv", getConv().getType(), 2);
  if (failed(checks.result()))
    return failure();
  checks
      .equal("conv rows", columns(getX()), "to match x columns",
             dim(getConv(), 0))
      .range("conv columns", 1, moek::kMaxTaps, dim(getConv(), 1))
      .range("(conv columns - 1) * dilation", 0, moek::kMaxConvRows,
             (dim(getConv(), 1) - 1) * int64_t(getDilation()));
  if (getBias())
    checks.equal("bias length", columns(getX()), "to match x columns",
                 columns(getBias()));
  return checks.result();
}

int64_t ShortConvOp::getStateLayer() { return int64_t(getLayer()); }
int64_t ShortConvOp::getStatePart() { return int64_t(getPart()); }

int64_t ShortConvOp::getStateWidth() {
  return moek::convStateWidth(dim(getConv(), 1), getDilation(),
                              columns(getX()));
}

/// Returns the work of a convolution of `all` columns; `before` inputs of each
/// sequence are read and written once per step.
static InstructionWork workOfConvolution(Operation *op,
                                         const Execution &execution, double all,
                                         double taps, double before,
                                         StringRef variant) {
  double rows = double(execution.tokens);
  InstructionWork work =
      moving(rows * all * (2 * taps + 4), 2 * rows * all * kF32Bytes);
  work.weightBytes = all * taps * kF32Bytes;
  work.kvBytes =
      2 * double(sequencesOf(op, execution.tokens)) * before * all * kF32Bytes;
  work.variant = variant;
  return work;
}

Instructions ShortConvOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  int64_t taps = dim(getConv(), 1);
  list.add(inst::ShortConv{.x = getX(),
                           .second = std::nullopt,
                           .third = std::nullopt,
                           .weight = getConv(),
                           .second_weight = std::nullopt,
                           .third_weight = std::nullopt,
                           .bias = getBias(),
                           .state = Operand::state(),
                           .out = getResult(),
                           .taps = taps,
                           .silu = getSilu(),
                           .dilation = getDilation()},
           workOfConvolution(*this, execution, double(columns(getX())),
                             double(taps),
                             double((taps - 1) * int64_t(getDilation())), "plain"));
  return list;
}

//===----------------------------------------------------------------------===//
// The net
//===----------------------------------------------------------------------===//

/// Returns the columns of queries, keys and values together.
static int64_t mixedColumns(DeltaNetOp op) {
  return 2 * op.getKeyHeads() * op.getKey() + op.getHeads() * op.getValue();
}

/// Returns whether each key channel has a decay.
static bool hasChannels(DeltaNetOp op) {
  return columns(op.getAlpha()) != int64_t(op.getHeads());
}

/// Checks the parts of x and the weight and bias of their convolution.
static LogicalResult verifyConvolution(DeltaNetOp op) {
  OpChecks checks(op);
  int64_t parts = int64_t(op.getX().size()), all = mixedColumns(op);
  if (parts != 1 && parts != 3)
    return op.emitOpError("expected 1 or 3 parts of x, got ") << parts;
  checks.equal("number of convs", parts, "to match the parts of x",
               int64_t(op.getConv().size()));
  if (failed(checks.result()))
    return failure();
  checks.multiple("x columns", parts, "parts of x", all);
  int64_t taps = dim(op.getConv().front(), 1);
  for (auto [x, conv] : llvm::zip_equal(op.getX(), op.getConv()))
    checks.weight("conv", conv.getType(), 2)
        .equal("x columns", all / parts,
               parts == 1 ? "(2 * key_heads * key + heads * value)"
                          : "(a third of 2 * key_heads * key + heads * value)",
               columns(x))
        .equal("conv rows", all / parts, "to match x columns", dim(conv, 0))
        .equal("conv columns", taps, "to match the first conv", dim(conv, 1));
  checks.range("conv columns", 1, moek::kMaxTaps, taps);
  if (op.getBias())
    checks.equal("bias length", all, "to match x columns",
                 columns(op.getBias()));
  return checks.result();
}

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
      .tokens({getAlpha(), getResult()})
      .multiple("heads", keyHeads, "key_heads", heads);
  for (Value x : getX())
    checks.tokens({x});
  if (failed(checks.result()) || failed(verifyConvolution(*this)))
    return failure();
  if (bool(getBeta()) == getSums())
    return emitOpError("expected beta, or without it sums");
  if (getSkip() && !getSums())
    return emitOpError("has a skip, which comes with sums");
  if (!(getFloor().convertToDouble() <= 0))
    return emitOpError("expected a floor of at most 0");
  int64_t decays = hasChannels(*this) && !getSums() ? heads * key : heads;
  if (getBeta())
    checks.tokens({getBeta()})
        .equal("beta columns", heads, "to match heads", columns(getBeta()));
  if (getSkip())
    checks.equal("skip length", heads, "to match heads", columns(getSkip()));
  return checks
      .equal("alpha columns", decays,
             decays == heads ? "to match heads" : "(heads * key)",
             columns(getAlpha()))
      .equal("a length", heads, "to match heads", columns(getA()))
      .equal("dt length", decays, "to match alpha columns", columns(getDt()))
      .equal("result columns", heads * value, "(heads * value)",
             columns(getResult()))
      .result();
}

int64_t DeltaNetOp::getStateLayer() { return int64_t(getLayer()); }

int64_t DeltaNetOp::getStateWidth() {
  return moek::deltaStateWidth(dim(getConv().front(), 1), mixedColumns(*this),
                               getHeads(), getKey(), getValue());
}

/// The state of each sequence is read and written once per step.
Instructions DeltaNetOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  int64_t mixed = mixedColumns(*this), taps = dim(getConv().front(), 1);
  double rows = double(execution.tokens);
  double sequences = double(sequencesOf(*this, execution.tokens));
  double heads = double(getHeads()), decays = double(columns(getAlpha()));
  double matrices = heads * double(getKey()) * double(getValue());
  InstructionWork gating =
      moving(10 * rows * decays, 2 * rows * (heads + decays) * kF32Bytes);
  gating.weightBytes = (heads + decays) * kF32Bytes;
  gating.variant = hasChannels(*this) ? "channels" : "";
  // Seven operations per element: the product with the decay, and one
  // multiply-add each for reading with the key, for the update, and for reading
  // with the query. Sums do not read with the key.
  InstructionWork ruling =
      moving((getSums() ? 5 : 7) * rows * matrices,
             rowBytes(rows, {getResult()}) + rows * double(mixed) * kF32Bytes);
  ruling.kvBytes = 2 * sequences * matrices * kF32Bytes;
  ruling.variant = getSums() ? "sums" : gating.variant;

  Temporary convolved = list.temporary(".conv", mixed);
  Temporary gates =
      list.temporary(".gates", int64_t(getHeads()) + columns(getAlpha()));
  auto part = [](auto values, size_t i) {
    return i < values.size() ? Operand(values[i]) : Operand(Value());
  };
  list.add(inst::ShortConv{.x = getX().front(),
                           .second = part(getX(), 1),
                           .third = part(getX(), 2),
                           .weight = getConv().front(),
                           .second_weight = part(getConv(), 1),
                           .third_weight = part(getConv(), 2),
                           .bias = getBias(),
                           .state = Operand::state(),
                           .out = convolved,
                           .taps = taps,
                           .silu = true,
                           .dilation = 1},
           workOfConvolution(*this, execution, double(mixed), double(taps),
                             double(taps - 1),
                             getX().size() > 1 ? "parts" : ""));
  list.add(inst::DeltaGates{.beta = getBeta(),
                            .alpha = getAlpha(),
                            .a = getA(),
                            .dt = getDt(),
                            .out = gates,
                            .floor = getFloor()},
           gating);
  list.add(inst::DeltaRule{.x = convolved,
                           .gates = gates,
                           .skip = getSkip(),
                           .state = Operand::state(),
                           .out = getResult(),
                           .key_heads = getKeyHeads(),
                           .heads = getHeads(),
                           .key = getKey(),
                           .value = getValue(),
                           .begin = moek::deltaStateBegin(taps, mixed),
                           .tiled = getTiled(),
                           .channels = hasChannels(*this),
                           .sums = getSums(),
                           .eps = getEps()},
           ruling);
  return list;
}
