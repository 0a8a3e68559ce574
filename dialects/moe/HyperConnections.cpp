//===- HyperConnections.cpp - Ops on residual streams ---------------------===//
//
// Verifiers, costs and instructions.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/MoeWork.h"
#include "kernels/Abi.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;

namespace {
using Steps = SmallVector<PlanStep>;
using Works = SmallVector<StepWork>;

/// Of weights of `streams` streams: those that are read, written and mixed.
int64_t allWeights(int64_t streams) { return streams * (streams + 2); }
} // namespace

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

Steps HyperWeightsOp::getPlanSteps() { return {{OpCode::HyperWeights}}; }

/// Each iteration adds and divides rows, then columns.
Works HyperWeightsOp::getWork(int64_t tokens, int64_t context) {
  double each = 5 * double(columns(getX()));
  if (columns(getX()) > int64_t(getStreams()))
    each += 4.0 * double(getIterations()) * double(getStreams()) *
            double(getStreams());
  StepWork work =
      moving(double(tokens) * each, rowBytes(tokens, {getX(), getResult()}));
  work.weightBytes =
      double(columns(getScale()) + columns(getBase())) * kF32Bytes;
  return {work};
}

LogicalResult HyperCollapseOp::verify() {
  int64_t streams = getStreams();
  return OpChecks(*this)
      .range("streams", 1, moek::kMaxStreams, streams)
      .tokens({getX(), getWeights(), getResult()})
      .equal("x columns", streams * columns(getResult()),
             "(streams * result columns)", columns(getX()))
      .range("weights columns", streams, INT32_MAX, columns(getWeights()))
      .result();
}

Steps HyperCollapseOp::getPlanSteps() { return {{OpCode::HyperCollapse}}; }

Works HyperCollapseOp::getWork(int64_t tokens, int64_t context) {
  return {moving(2.0 * double(tokens) * double(columns(getX())),
                 rowBytes(tokens, {getX(), getWeights(), getResult()}))};
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

Steps HyperSpreadOp::getPlanSteps() { return {{OpCode::HyperSpread}}; }

Works HyperSpreadOp::getWork(int64_t tokens, int64_t context) {
  double each = getX() ? 1 + 2.0 * double(getStreams()) : 0;
  return {
      moving(double(tokens) * each * double(columns(getResult())),
             rowBytes(tokens, {getY(), getX(), getWeights(), getResult()}))};
}
