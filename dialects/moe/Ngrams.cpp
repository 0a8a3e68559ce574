//===- Ngrams.cpp - Ops of n-gram tables ----------------------------------===//
//
// Verifiers and instructions.
//
//===----------------------------------------------------------------------===//

#include "kernels/Ngrams.h"

#include "dialects/moe/InstructionBuilders.h"
#include "dialects/moe/MoeWork.h"

using namespace mlir;
using namespace mlir::moe;

/// Returns the number of rows that each token reads, or 0 if there is none.
static int64_t rowsOf(NgramEmbedOp op) {
  return int64_t(op.getModuli().size());
}

static int64_t sizeOf(NgramEmbedOp op) {
  return int64_t(op.getMultipliers().size());
}

LogicalResult NgramEmbedOp::verify() {
  OpChecks checks(*this);
  int64_t size = sizeOf(*this), rows = rowsOf(*this);
  checks.range("layer", 0, INT32_MAX, getLayer())
      .range("part", 0, INT32_MAX, getPart())
      .range("pad", 0, moert::kMaxParameter - 1, getPad())
      .range("number of multipliers", 2, moek::kMaxNgram, size)
      .weight("table", getTable().getType(), 2)
      .tokens({getResult()});
  if (failed(checks.result()))
    return failure();
  checks.range("number of moduli", size - 1, moert::kMaxParameter, rows)
      .multiple("number of moduli", size - 1, "(multipliers - 1)", rows)
      .equal("number of offsets", rows, "to match moduli",
             int64_t(getOffsets().size()))
      .equal("result columns", rows * columns(getTable()),
             "(moduli * table columns)", columns(getResult()))
      .equal("history width", 1, "(a number for each token)",
             getHistory().getType().getWidth())
      .require(getHistory().getType().getElement() == moek::KvType::F32,
               "expected a history in f32");
  if (failed(checks.result()))
    return failure();
  const int64_t last = dim(getTable(), 0);
  for (auto [modulus, offset] : llvm::zip_equal(getModuli(), getOffsets()))
    checks.range("modulus", 1, last, modulus)
        .range("offset", 0, last - std::clamp<int64_t>(modulus, 1, last),
               offset);
  for (int64_t multiplier : getMultipliers())
    checks.range("multiplier", 0, INT64_MAX, multiplier);
  if (auto map = getMap())
    for (int64_t token : *map)
      checks.range("number in map", 0, moert::kMaxParameter - 1, token);
  return checks.result();
}

int64_t NgramEmbedOp::getCacheLayer() { return int64_t(getLayer()); }
int64_t NgramEmbedOp::getCachePart() { return int64_t(getPart()); }
Value NgramEmbedOp::getCache() { return getHistory(); }
bool NgramEmbedOp::isExact() { return true; }
int64_t NgramEmbedOp::getCacheBytes(int64_t rows) {
  KvType type = getHistory().getType();
  return moek::kvBytes(type.getElement(), type.getWidth(), rows);
}
Value NgramEmbedOp::getFileTable() { return getTable(); }

/// Each row is a read of its own: neighbours in a text are far apart in the
/// table.
Instructions NgramEmbedOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens), rows = double(rowsOf(*this));
  InstructionWork work =
      moving(0, rowBytes(tokens, {getResult()}) + tokens * sizeof(int32_t));
  work.fileReads = tokens * rows;
  work.weightBytes =
      work.fileReads * bytesOf(getTable()) / double(dim(getTable(), 0));
  work.kvBytes = tokens * kF32Bytes;

  SmallVector<double> hash;
  for (ArrayRef<int64_t> numbers :
       {getMultipliers(), getModuli(), getOffsets()})
    for (int64_t number : numbers)
      for (int64_t i = 0; i < moek::kWideDigits; ++i)
        hash.push_back(double(uint64_t(number) >> i * moek::kWideBits &
                              ((uint64_t(1) << moek::kWideBits) - 1)));
  Builder builder(getContext());
  Operand map = std::nullopt;
  if (auto numbers = getMap())
    map = Operand::constant(
        "map", builder.getDenseF64ArrayAttr(
                   SmallVector<double>(numbers->begin(), numbers->end())));
  list.add(inst::NgramEmbed{.tokens = getTokens(),
                            .table = getTable(),
                            .map = map,
                            .hash = Operand::constant(
                                "hash", builder.getDenseF64ArrayAttr(hash)),
                            .history = getHistory(),
                            .out = getResult(),
                            .size = sizeOf(*this),
                            .heads = rowsOf(*this) / (sizeOf(*this) - 1),
                            .pad = getPad(),
                            .ends = getEnds()},
           work);
  return list;
}

LogicalResult GateStreamsOp::verify() {
  return OpChecks(*this)
      .range("streams", 1, moek::kMaxStreams, getStreams())
      .tokens({getQ(), getK(), getValue()})
      .equal("q columns", int64_t(getStreams()) * columns(getValue()),
             "(streams * value columns)", columns(getQ()))
      .result();
}

Instructions GateStreamsOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  list.add(inst::GateStreams{.q = getQ(),
                             .k = getK(),
                             .value = getValue(),
                             .out = getResult(),
                             .streams = getStreams()},
           moving(3 * tokens * double(columns(getQ())),
                  rowBytes(tokens, {getQ(), getK(), getValue(), getResult()})));
  return list;
}
