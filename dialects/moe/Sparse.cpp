//===- Sparse.cpp - Ops of attention to chosen rows -----------------------===//
//
// Verifiers, costs and instructions.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/MoeWork.h"
#include "kernels/Entries.h"
#include "kernels/KvCache.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;

namespace {
using Steps = SmallVector<PlanStep>;
using Works = SmallVector<StepWork>;

int64_t bytesOfRows(KvType type, int64_t rows) {
  return moek::kvBytes(type.getElement(), type.getWidth(), rows);
}
} // namespace

//===----------------------------------------------------------------------===//
// Caches of rows as they are
//===----------------------------------------------------------------------===//

LogicalResult RowStoreOp::verify() {
  return OpChecks(*this)
      .tokens({getX()})
      .range("layer", 0, INT32_MAX, getLayer())
      .range("part", 0, INT32_MAX, getPart())
      .equal("kv width", columns(getX()), "to match x columns",
             getType().getWidth())
      .result();
}

int64_t RowStoreOp::getCacheLayer() { return int64_t(getLayer()); }
int64_t RowStoreOp::getCachePart() { return int64_t(getPart()); }
Value RowStoreOp::getCache() { return getResult(); }
int64_t RowStoreOp::getCacheBytes(int64_t rows) {
  return bytesOfRows(getType(), rows);
}

Steps RowStoreOp::getPlanSteps() { return {{OpCode::RowStore}}; }

Works RowStoreOp::getWork(int64_t tokens, int64_t context) {
  StepWork work = moving(0, rowBytes(tokens, {getX()}));
  work.kvBytes = double(tokens) * double(getType().getRowBytes());
  return {work};
}

//===----------------------------------------------------------------------===//
// Choice and attention
//===----------------------------------------------------------------------===//

LogicalResult ChooseEntriesOp::verify() {
  int64_t heads = getHeads(), key = getKey();
  return OpChecks(*this)
      .size("heads", heads)
      .size("key", key)
      .size("top_k", getTopK())
      .size("ratio", getRatio())
      .positive("scale", getScale().convertToDouble())
      .tokens({getQ(), getWeights(), getResult()})
      .equal("q columns", heads * key, "(heads * key)", columns(getQ()))
      .equal("weights columns", heads, "to match heads", columns(getWeights()))
      .equal("kv width", key, "to match key", getKv().getType().getWidth())
      .equal("result columns", getTopK(), "to match top_k",
             columns(getResult()))
      .result();
}

Steps ChooseEntriesOp::getPlanSteps() {
  return {{OpCode::IndexScores}, {OpCode::IndexSelect}};
}

Works ChooseEntriesOp::getWork(int64_t tokens, int64_t context) {
  const Seen seen(*this, tokens, context);
  double pairs = seen.pairs / double(getRatio());
  double scoreBytes = pairs * kF32Bytes;
  // A product, its positive part, and its share of the sum.
  StepWork scores =
      moving(pairs * double(getHeads()) * (2.0 * double(getKey()) + 3),
             rowBytes(tokens, {getQ(), getWeights()}) + scoreBytes);
  seen.read(getKv().getType(), scores);
  scores.kvBytes /= double(getRatio());
  // Where a token sees more than it takes each score is looked at for three
  // digits, and again.
  const double each = double(tokens) / double(sequencesOf(*this, tokens));
  const double all = double(columns(getResult())) * double(getRatio());
  if (double(context) + each <= all)
    pairs = 0;
  StepWork select =
      moving(4 * pairs, rowBytes(tokens, {getResult()}) + 16 * pairs);
  return {scores, select};
}

LogicalResult SparseAttentionOp::verify() {
  OpChecks checks(*this);
  int64_t heads = getHeads(), key = getKey(), value = getValue();
  bool hasRows = bool(getKv()), hasEntries = bool(getEntries());
  checks.size("heads", heads)
      .size("key", key)
      .range("value", 1, key, value)
      .positive("scale", getScale().convertToDouble())
      .tokens({getQ(), getResult()})
      .require(hasRows || getRatio() == 1,
               "expected a kv, or entries of one position each")
      .range("window", hasRows, hasRows ? INT32_MAX : 0, getWindow())
      .range("ratio", hasEntries, hasEntries ? INT32_MAX : 0, getRatio())
      .require(hasEntries || !getChosen(), "expected entries that are chosen")
      .equal("q columns", heads * key, "(heads * key)", columns(getQ()))
      .equal("result columns", heads * value, "(heads * value)",
             columns(getResult()));
  for (Value rows : {getKv(), getEntries()})
    if (rows)
      checks.equal("kv width", key, "to match key",
                   cast<KvType>(rows.getType()).getWidth());
  if (getChosen())
    checks.tokens({getQ(), getChosen()});
  if (getSinks())
    checks.equal("sinks length", heads, "to match heads", columns(getSinks()));
  return checks.result();
}

int64_t SparseAttentionOp::getMostPositions() {
  int64_t chosen = getChosen() ? columns(getChosen()) * int64_t(getRatio()) : 0;
  return std::max(chosen, int64_t(getWindow()));
}

Steps SparseAttentionOp::getPlanSteps() { return {{OpCode::SparseAttention}}; }

/// Chosen rows are read for each token.
Works SparseAttentionOp::getWork(int64_t tokens, int64_t context) {
  double pairs = 0, bytes = 0;
  if (Value kv = getKv()) {
    const Seen seen(*this, tokens, context, int64_t(getWindow()));
    pairs += seen.pairs;
    bytes += seen.rows * double(cast<KvType>(kv.getType()).getRowBytes());
  }
  if (Value entries = getEntries()) {
    double ratio = double(getRatio());
    int64_t most = getChosen() ? columns(getChosen()) * int64_t(getRatio()) : 0;
    const Seen seen(*this, tokens, context, most);
    pairs += seen.pairs / ratio;
    bytes += (getChosen() ? seen.pairs : seen.rows) / ratio *
             double(cast<KvType>(entries.getType()).getRowBytes());
  }
  StepWork work = moving(
      pairs * double(getHeads()) *
          (2.0 * double(getKey()) + 2.0 * double(getValue()) + kSoftmaxFlops),
      rowBytes(tokens, {getQ(), getResult()}));
  if (getSinks())
    work.weightBytes = double(columns(getSinks())) * kF32Bytes;
  work.kvBytes = bytes;
  work.kvType =
      cast<KvType>((getKv() ? getKv() : getEntries()).getType()).getElement();
  work.window = getMostPositions();
  return {work};
}

//===----------------------------------------------------------------------===//
// Entries of several positions
//===----------------------------------------------------------------------===//

LogicalResult CompressOp::verify() {
  OpChecks checks(*this);
  int64_t cols = columns(getResult()) * (getOverlap() ? 2 : 1);
  return checks.range("layer", 0, INT32_MAX, getLayer())
      .range("part", 0, INT32_MAX, getPart())
      .tokens({getKv(), getGate(), getResult()})
      .weight("ape", getApe().getType(), 2)
      .equal("kv columns", cols, "to match result columns", columns(getKv()))
      .equal("gate columns", cols, "to match result columns",
             columns(getGate()))
      .equal("ape columns", cols, "to match kv columns", columns(getApe()))
      .result();
}

int64_t CompressOp::getStateLayer() { return int64_t(getLayer()); }
int64_t CompressOp::getStatePart() { return int64_t(getPart()); }
int64_t CompressOp::getStateWidth() {
  return moek::compressStateWidth(columns(getResult()), getOverlap());
}

Steps CompressOp::getPlanSteps() { return {{OpCode::Compress}}; }

/// Of each value and gate: add, maximum, two exponentials, and two
/// multiply-adds each of weights and sums.
Works CompressOp::getWork(int64_t tokens, int64_t context) {
  StepWork work = moving(
      10 * double(tokens) * double(columns(getKv())),
      rowBytes(tokens, {getKv(), getGate()}) +
          rowBytes(double(tokens) / double(dim(getApe(), 0)), {getResult()}));
  work.weightBytes =
      double(dim(getApe(), 0)) * double(columns(getApe())) * kF32Bytes;
  work.kvBytes = 2 * double(sequencesOf(*this, tokens)) *
                 double(getStateWidth()) * kF32Bytes;
  return {work};
}

LogicalResult EntryStoreOp::verify() {
  return OpChecks(*this)
      .tokens({getX()})
      .range("layer", 0, INT32_MAX, getLayer())
      .range("part", 0, INT32_MAX, getPart())
      .size("ratio", getRatio())
      .positive("eps", getEps().convertToDouble(), /*zeroToo=*/true)
      .equal("weight length", columns(getX()), "to match x columns",
             columns(getWeight()))
      .range("rope dimensions", 2, columns(getX()), getRope().getDim())
      .equal("kv width", columns(getX()), "to match x columns",
             getType().getWidth())
      .result();
}

int64_t EntryStoreOp::getCacheLayer() { return int64_t(getLayer()); }
int64_t EntryStoreOp::getCachePart() { return int64_t(getPart()); }
Value EntryStoreOp::getCache() { return getResult(); }
int64_t EntryStoreOp::getCacheBytes(int64_t rows) {
  return bytesOfRows(getType(), rows);
}

Steps EntryStoreOp::getPlanSteps() { return {{OpCode::EntryStore}}; }

Works EntryStoreOp::getWork(int64_t tokens, int64_t context) {
  double entries = double(tokens) / double(getRatio());
  StepWork work = moving(
      entries * (4.0 * double(columns(getX())) + 3.0 * getRope().getDim()),
      rowBytes(entries, {getX()}));
  work.weightBytes = double(columns(getWeight())) * kF32Bytes;
  work.kvBytes = entries * double(getType().getRowBytes());
  return {work};
}
