//===- HyperConnections.cpp - Ops on residual streams ---------------------===//
//
// Verifiers and instructions.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/InstructionBuilders.h"
#include "dialects/moe/MoeWork.h"
#include "kernels/Abi.h"

using namespace mlir;
using namespace mlir::moe;

/// Returns the number of weights with which `streams` streams are read, written
/// and mixed.
static int64_t allWeights(int64_t streams) { return streams * (streams + 2); }

LogicalResult HyperWeightsOp::verify() {
  OpChecks checks(*this);
  int64_t streams = getStreams(), cols = columns(getX());
  checks.range("streams", 1, moek::kMaxStreams, streams)
      .range("iterations", 1, INT32_MAX, getIterations())
      .positive("eps", getEps().convertToDouble(), /*zeroToo=*/true)
      .tokens({getX()});
  bool readsOnly = cols == streams;
  return checks
      .equal("x columns", readsOnly ? streams : allWeights(streams),
             "(streams, or streams * (2 + streams))", cols)
      .equal("scale length", readsOnly ? 1 : 3, "(a number for each kind)",
             columns(getScale()))
      .equal("base length", cols, "to match x columns", columns(getBase()))
      .result();
}

/// Each iteration adds and divides rows, then columns.
Instructions HyperWeightsOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  double each = 5 * double(columns(getX()));
  if (columns(getX()) > int64_t(getStreams()))
    each += 4.0 * double(getIterations()) * double(getStreams()) *
            double(getStreams());
  InstructionWork work =
      moving(tokens * each, rowBytes(tokens, {getX(), getResult()}));
  work.weightBytes =
      double(columns(getScale()) + columns(getBase())) * kF32Bytes;
  list.add(inst::HyperWeights{.x = getX(),
                              .scale = getScale(),
                              .base = getBase(),
                              .out = getResult(),
                              .streams = getStreams(),
                              .iterations = getIterations(),
                              .eps = getEps()},
           work);
  return list;
}

LogicalResult HyperCollapseOp::verify() {
  int64_t streams = getStreams();
  return OpChecks(*this)
      .range("streams", 1, moek::kMaxStreams, streams)
      .tokens({getX(), getWeights() ? getWeights() : getX(), getResult()})
      .equal("x columns", streams * columns(getResult()),
             "(streams * result columns)", columns(getX()))
      .range("weights columns", streams, INT32_MAX,
             getWeights() ? columns(getWeights()) : streams)
      .result();
}

Instructions HyperCollapseOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  list.add(inst::HyperCollapse{.x = getX(),
                               .weights = getWeights(),
                               .out = getResult(),
                               .streams = getStreams()},
           moving(2.0 * tokens * double(columns(getX())),
                  rowBytes(tokens, {getX(), getResult()}) +
                      (getWeights() ? rowBytes(tokens, {getWeights()}) : 0)));
  return list;
}

LogicalResult HyperSpreadOp::verify() {
  OpChecks checks(*this);
  int64_t streams = getStreams(), all = streams * columns(getY());
  checks.range("streams", 1, moek::kMaxStreams, streams)
      .tokens({getY(), getResult()})
      .require(bool(getX()) == bool(getWeights()),
               "expected streams and weights, or neither")
      .equal("result columns", all, "(streams * y columns)",
             columns(getResult()));
  if (getX() && getWeights())
    checks.tokens({getY(), getX(), getWeights()})
        .equal("x columns", all, "(streams * y columns)", columns(getX()))
        .equal("weights columns", allWeights(streams),
               "(streams * (2 + streams))", columns(getWeights()));
  return checks.result();
}

Instructions HyperSpreadOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  double each = getX() ? 1 + 2.0 * double(getStreams()) : 0;
  list.add(
      inst::HyperSpread{.y = getY(),
                        .x = getX(),
                        .weights = getWeights(),
                        .out = getResult(),
                        .streams = getStreams()},
      moving(tokens * each * double(columns(getResult())),
             rowBytes(tokens, {getY(), getX(), getWeights(), getResult()})));
  return list;
}

//===----------------------------------------------------------------------===//
// Attention over depth
//===----------------------------------------------------------------------===//

LogicalResult ResidualMixOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getX(), getStack()})
      .positive("eps", getEps().convertToDouble(), /*zeroToo=*/true)
      .equal("weight length", columns(getX()), "to match x columns",
             columns(getWeight()))
      .multiple("stack columns", columns(getX()), "x columns",
                columns(getStack()));
  if (failed(checks.result()))
    return failure();
  return checks
      .range("rows on the stack", 1, moek::kMaxResiduals,
             columns(getStack()) / columns(getX()))
      .result();
}

/// A row's score is two products and sums for each element, and its part of the
/// result one.
Instructions ResidualMixOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  InstructionWork work =
      moving(6 * tokens * double(columns(getX()) + columns(getStack())),
             rowBytes(tokens, {getX(), getStack(), getResult()}));
  work.weightBytes = bytesOf(getWeight());
  list.add(inst::ResidualMix{.x = getX(),
                             .stack = getStack(),
                             .weight = getWeight(),
                             .out = getResult(),
                             .count = columns(getStack()) / columns(getX()),
                             .eps = getEps()},
           work);
  return list;
}

LogicalResult ConcatOp::verify() {
  return OpChecks(*this)
      .tokens({getX(), getY(), getResult()})
      .equal("result columns", columns(getX()) + columns(getY()),
             "(x columns + y columns)", columns(getResult()))
      .result();
}

Instructions ConcatOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  list.add(inst::Concat{.x = getX(), .y = getY(), .out = getResult()},
           moving(0, 2 * rowBytes(double(execution.tokens), {getResult()})));
  return list;
}
