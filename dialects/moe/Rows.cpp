//===- Rows.cpp - Instructions of ops on whole rows -----------------------===//

#include "dialects/moe/InstructionBuilders.h"
#include "dialects/moe/MoeWork.h"

using namespace mlir;
using namespace mlir::moe;

void moe::addResidual(Instructions &list, Value result, Value residual,
                      bool overwrites, double tokens) {
  if (!residual)
    return;
  if (!overwrites)
    list.add(inst::Add{.x = result, .y = residual, .out = result});
  InstructionWork &work = list.back().work;
  work.ops += tokens * double(columns(residual));
  work.activationBytes += rowBytes(tokens, {residual});
}

void moe::addActivation(Instructions &list, Temporary gate, Temporary up,
                        Activation activation, const APFloat &limit,
                        const APFloat &softLimit, bool clampsActivated,
                        const InstructionWork &work) {
  if (limit.isZero())
    list.add(
        inst::ActivationMul{
            .gate = gate, .up = up, .out = gate, .activation = activation},
        work);
  else
    list.add(inst::ClampedMul{.gate = gate,
                              .up = up,
                              .out = gate,
                              .limit = limit,
                              .soft = softLimit,
                              .activated = clampsActivated},
             work);
}

/// result = x * weight^T + bias + residual, where the last two may be null.
static Instructions linear(Operation *op, Value x, Value weight, Value bias,
                           Value residual, double tokens) {
  Instructions list(op);
  Value result = op->getResult(0);
  bool overwrites = list.reuse(result, residual);
  InstructionWork work = moving(0, rowBytes(tokens, {x, result}));
  work.products = {product(weight, tokens)};
  addBias(work, bias, tokens);
  list.add(inst::Linear{.act = Operand::activation(x),
                        .w = weight,
                        .bias = bias,
                        .out = result,
                        .accumulate = overwrites},
           work);
  addResidual(list, result, residual, overwrites, tokens);
  return list;
}

/// Reads a row of the table for each token, and the result's columns of it.
Instructions EmbeddingOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  double read = double(columns(getResult())) / double(columns(getTable()));
  double row = bytesOf(getTable()) / double(dim(getTable(), 0));
  InstructionWork work =
      moving(0, rowBytes(tokens, {getResult()}) + tokens * sizeof(int32_t));
  work.weightBytes = row * read * tokens;
  list.add(inst::Embed{.tokens = getTokens(),
                       .table = getTable(),
                       .out = getResult(),
                       .begin = getBegin()},
           work);
  return list;
}

Instructions RmsNormOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  InstructionWork work = moving(4.0 * tokens * double(columns(getX())),
                                rowBytes(tokens, {getX(), getResult()}));
  work.weightBytes = bytesOf(getWeight());
  list.add(inst::RmsNorm{.x = getX(),
                         .weight = getWeight(),
                         .out = getResult(),
                         .groups = getGroups(),
                         .whole = getGroups() > 1 && getWeight() &&
                                  columns(getWeight()) == columns(getX()),
                         .eps = getEps()},
           work);
  return list;
}

Instructions LayerNormOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  InstructionWork work = moving(8.0 * tokens * double(columns(getX())),
                                rowBytes(tokens, {getX(), getResult()}));
  work.weightBytes = bytesOf(getWeight()) + bytesOf(getBias());
  list.add(inst::LayerNorm{.x = getX(),
                           .weight = getWeight(),
                           .bias = getBias(),
                           .out = getResult(),
                           .eps = getEps()},
           work);
  return list;
}

Instructions LinearOp::getInstructions(const Execution &execution) {
  return linear(*this, getX(), getWeight(), getBias(), getResidual(),
                double(execution.tokens));
}

Instructions LmHeadOp::getInstructions(const Execution &execution) {
  return linear(*this, getX(), getWeight(), /*bias=*/{}, /*residual=*/{},
                double(execution.tokens));
}

Instructions AddOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  list.reuse(getResult(), getLhs());
  list.add(inst::Add{.x = getLhs(), .y = getRhs(), .out = getResult()},
           moving(tokens * double(columns(getLhs())),
                  rowBytes(tokens, {getLhs(), getRhs(), getResult()})));
  return list;
}

/// An exponential, an addition, a division and a multiplication.
Instructions GateMulOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  list.reuse(getResult(), getX());
  list.add(inst::GateMul{.x = getX(),
                         .gate = getGate(),
                         .out = getResult(),
                         .function = getFunction()},
           moving(tokens * (double(columns(getX())) +
                            3.0 * double(columns(getGate()))),
                  rowBytes(tokens, {getX(), getGate(), getResult()})));
  return list;
}

/// A multiplication per element.
Instructions PositionScaleOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  list.reuse(getResult(), getX());
  list.add(inst::PositionScale{.x = getX(),
                               .out = getResult(),
                               .length = getLength(),
                               .offset = getOffset(),
                               .slope = getSlope()},
           moving(tokens * double(columns(getX())),
                  rowBytes(tokens, {getX(), getResult()})));
  return list;
}

Instructions EmbedPositionsOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  InstructionWork work = moving(0, rowBytes(tokens, {getResult()}));
  work.weightBytes = bytesOf(getTable()) / double(dim(getTable(), 0)) * tokens;
  list.add(inst::EmbedPositions{.table = getTable(), .out = getResult()}, work);
  return list;
}

/// One multiplication per element; the softcap costs as much as for scores of
/// attention.
Instructions ScaleOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  double each = getSoftcap().isZero() ? 1 : 1 + kSoftcapFlops;
  list.reuse(getResult(), getX());
  list.add(inst::Scale{.x = getX(),
                       .out = getResult(),
                       .factor = getFactor(),
                       .softcap = getSoftcap(),
                       .limit = getLimit()},
           moving(each * tokens * double(columns(getX())),
                  rowBytes(tokens, {getX(), getResult()})));
  return list;
}

Instructions ActivationMulOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  list.reuse(getResult(), getGate());
  list.add(inst::ActivationMul{.gate = getGate(),
                               .up = getUp(),
                               .out = getResult(),
                               .activation = getActivation()},
           moving(kActivationFlops * tokens * double(columns(getResult())),
                  rowBytes(tokens, {getGate(), getResult()}) +
                      (getUp() ? rowBytes(tokens, {getUp()}) : 0)));
  return list;
}

Instructions FfnOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  int64_t inner = dim(getGate(), 0);
  GatedWork work(*this, tokens, 1, double(inner));
  for (InstructionWork *first : {&work.gateUp, &work.gate})
    first->activationBytes += rowBytes(tokens, {getX()});
  work.down.activationBytes += rowBytes(tokens, {getResult()});

  Operand x = Operand::activation(getX());
  Temporary gate = list.temporary(getFused() ? ".inner" : ".gate", inner);
  if (getFused()) {
    list.add(inst::GateUp{.act = x,
                          .gate = getGate(),
                          .up = getUp(),
                          .gate_bias = getGateBias(),
                          .up_bias = getUpBias(),
                          .out = gate,
                          .activation = getActivation()},
             work.gateUp);
  } else {
    Temporary up = list.temporary(".up", inner);
    list.add(inst::Linear{.act = x,
                          .w = getGate(),
                          .bias = getGateBias(),
                          .out = gate,
                          .accumulate = false},
             work.gate);
    list.add(inst::Linear{.act = x,
                          .w = getUp(),
                          .bias = getUpBias(),
                          .out = up,
                          .accumulate = false},
             work.up);
    addActivation(list, gate, up, getActivation(), getLimit(), getSoftLimit(),
                  getClampsActivated(), work.mul);
  }
  bool overwrites = list.reuse(getResult(), getResidual());
  list.add(inst::Linear{.act = Operand::activation(gate),
                        .w = getDown(),
                        .bias = getDownBias(),
                        .out = getResult(),
                        .accumulate = overwrites},
           work.down);
  addResidual(list, getResult(), getResidual(), overwrites, tokens);
  return list;
}

/// The bytes that cross the link, once.
Instructions TransferOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  auto type = cast<RankedTensorType>(getX().getType());
  double elements = double(execution.tokens);
  for (int64_t size : type.getShape().drop_front())
    elements *= double(size);
  list.declare(getResult(), /*suffix=*/"", getTo());
  list.add(inst::Copy{.x = getX(), .out = getResult()},
           moving(0, elements * type.getElementTypeBitWidth() / 8));
  return list;
}
