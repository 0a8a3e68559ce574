//===- DeltaNet.cpp - Ops of gated delta nets -----------------------------===//
//
// Verifiers, costs and instructions.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/MoeWork.h"
#include "kernels/KvCache.h"

#include <numeric>

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;

namespace {
using Steps = SmallVector<PlanStep>;
using Works = SmallVector<StepWork>;

/// Of all elements of rows.
double bytesOf(int64_t tokens, ValueRange rows) {
  double elements = 0;
  for (Value value : rows)
    elements += double(tokens) * double(columns(value));
  return elements * kF32Bytes;
}
} // namespace

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

Steps RegroupOp::getPlanSteps() { return {{OpCode::Regroup}}; }

Works RegroupOp::getWork(int64_t tokens, int64_t context) {
  return {moving(0, 2 * bytesOf(tokens, getResult()))};
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

Steps DeltaNetOp::getPlanSteps() {
  return {{OpCode::ShortConv}, {OpCode::DeltaGates}, {OpCode::DeltaRule}};
}

/// The state of each sequence is read and written once per step.
Works DeltaNetOp::getWork(int64_t tokens, int64_t context) {
  double rows = double(tokens), taps = double(dim(getConv(), 1));
  double sequences = double(sequencesOf(*this, tokens));
  double heads = double(getHeads()), all = double(columns(getX()));
  double matrices = heads * double(getKey()) * double(getValue());
  StepWork conv =
      moving(rows * all * (2 * taps + 4), 2 * bytesOf(tokens, getX()));
  conv.weightBytes = all * taps * kF32Bytes;
  conv.kvBytes = 2 * sequences * (taps - 1) * all * kF32Bytes;
  StepWork gates =
      moving(10 * rows * heads, 2 * bytesOf(tokens, {getBeta(), getAlpha()}));
  gates.weightBytes = 2 * heads * kF32Bytes;
  // A product with the decay, and three multiply-adds: what the key finds, what
  // is written, what the query finds.
  StepWork rule =
      moving(7 * rows * matrices, bytesOf(tokens, {getX(), getResult()}));
  rule.kvBytes = 2 * sequences * matrices * kF32Bytes;
  return {conv, gates, rule};
}
