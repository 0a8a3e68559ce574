//===- Sparse.cpp - Ops of attention to chosen rows -----------------------===//
//
// Verifiers and instructions.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/InstructionBuilders.h"
#include "dialects/moe/MoeWork.h"
#include "kernels/Entries.h"
#include "kernels/KvCache.h"

using namespace mlir;
using namespace mlir::moe;

static int64_t bytesOfRows(KvType type, int64_t rows) {
  return moek::kvBytes(type.getElement(), type.getWidth(), rows);
}

//===----------------------------------------------------------------------===//
// Caches of rows as they are
//===----------------------------------------------------------------------===//

LogicalResult RowStoreOp::verify() {
  return OpChecks(*this)
      .tokens({getX()})
      .range("layer", 0, INT32_MAX, getLayer())
      .range("part", 0, INT32_MAX, getPart())
      .size("ratio", getRatio())
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

Instructions RowStoreOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double rows = double(execution.tokens) / double(getRatio());
  InstructionWork work = moving(0, rowBytes(rows, {getX()}));
  work.kvBytes = rows * double(getType().getRowBytes());
  list.add(inst::RowStore{.x = getX(), .kv = getResult(), .ratio = getRatio()},
           work);
  return list;
}

//===----------------------------------------------------------------------===//
// Choice and attention
//===----------------------------------------------------------------------===//

LogicalResult ChooseEntriesOp::verify() {
  int64_t heads = getHeads(), key = getKey();
  OpChecks checks(*this);
  checks.size("heads", heads)
      .size("key", key)
      .size("top_k", getTopK())
      .size("ratio", getRatio())
      .positive("scale", getScale().convertToDouble())
      .tokens({getQ(), getWeights() ? getWeights() : getQ(), getResult()})
      .equal("q columns", heads * key, "(heads * key)", columns(getQ()))
      .equal("weights columns", heads, "to match heads",
             getWeights() ? columns(getWeights()) : heads)
      .equal("kv width", key, "to match key", getKv().getType().getWidth())
      .equal("result columns", getTopK(), "to match top_k",
             columns(getResult()));
  for (Value blocks : {getWithin(), getBlocks()})
    if (blocks)
      checks.size("block", getBlock()).tokens({getQ(), blocks});
  return checks.result();
}

Instructions ChooseEntriesOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  const Seen seen(*this, execution);
  double pairs = seen.pairs / double(getRatio());
  double scoreBytes = pairs * kF32Bytes;
  // For each head: a dot product, its ReLU, and adding it to the weighted sum.
  InstructionWork scoring =
      moving(pairs * double(getHeads()) * (2.0 * double(getKey()) + 3),
             rowBytes(tokens, {getQ()}) + scoreBytes);
  if (getWeights())
    scoring.activationBytes += rowBytes(tokens, {getWeights()});
  seen.read(getKv().getType(), scoring);
  scoring.kvBytes /= double(getRatio());
  // If a token sees more entries than it selects, each score is read four
  // times: once for each of three radix digits, and once to select.
  const double each = tokens / double(sequencesOf(*this, execution.tokens));
  const double all = double(columns(getResult())) * double(getRatio());
  if (double(execution.cached) + each <= all)
    pairs = 0;
  InstructionWork selecting =
      moving(4 * pairs, rowBytes(tokens, {getResult()}) + 16 * pairs);

  Temporary scores = list.temporary(".scores", getScores());
  list.add(inst::IndexScores{.q = getQ(),
                             .weights = getWeights(),
                             .kv = getKv(),
                             .out = scores,
                             .heads = getHeads(),
                             .key = getKey(),
                             .ratio = getRatio(),
                             .scale = getScale()},
           scoring);
  // Blocks are counted in positions.
  const int64_t positions = int64_t(getBlock()) * int64_t(getRatio());
  auto select = [&](Temporary from, Value chosen, int64_t ratio, int64_t local,
                    const InstructionWork &work) {
    list.add(inst::IndexSelect{.scores = from,
                               .chosen = chosen,
                               .top_k = columns(chosen),
                               .ratio = ratio,
                               .groups = 1,
                               .local = local},
             work);
  };
  InstructionWork reading = moving(seen.pairs / double(getRatio()), scoreBytes);
  if (Value blocks = getBlocks()) {
    Temporary most = list.temporary(".maxima", getBlockScores());
    list.add(inst::BlockMaxima{.scores = scores,
                               .out = most,
                               .ratio = positions,
                               .size = getBlock()},
             reading);
    InstructionWork few = selecting;
    few.ops /= double(getBlock());
    few.activationBytes /= double(getBlock());
    select(most, blocks, positions, /*local=*/1, few);
  }
  if (Value within = getWithin()) {
    Temporary kept = list.temporary(".kept", getScores());
    reading.activationBytes *= 2;
    list.add(inst::KeepBlocks{.scores = scores,
                              .chosen = within,
                              .out = kept,
                              .top_k = columns(within),
                              .ratio = positions,
                              .local = 1,
                              .size = getBlock()},
             reading);
    scores = kept;
  }
  select(scores, getResult(), int64_t(getRatio()), /*local=*/0, selecting);
  return list;
}

int64_t ChooseEntriesOp::getScores() {
  PhaseAttr phase = phaseOf(*this);
  int64_t entries = phase ? phase.getContextLength() / int64_t(getRatio()) : 1;
  return std::max<int64_t>(1, entries);
}

int64_t ChooseEntriesOp::getBlockScores() {
  return std::max<int64_t>(1, getScores() /
                                  std::max<int64_t>(1, int64_t(getBlock())));
}

LogicalResult ChooseBlocksOp::verify() {
  int64_t groups = getGroups(), key = getKey();
  return OpChecks(*this)
      .size("groups", groups)
      .size("key", key)
      .size("top_k", getTopK())
      .size("ratio", getRatio())
      .range("local", 0, INT32_MAX, getLocal())
      .tokens({getQ(), getResult()})
      .equal("q columns", groups * key, "(groups * key)", columns(getQ()))
      .equal("kv width", key, "to match key", getKv().getType().getWidth())
      .equal("result columns", groups * int64_t(getTopK()), "(groups * top_k)",
             columns(getResult()))
      .result();
}

Instructions ChooseBlocksOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  const double tokens = double(execution.tokens), groups = double(getGroups());
  const Seen seen(*this, execution);
  double scores = groups * seen.pairs / double(getRatio());
  // For each group a dot product and a maximum.
  InstructionWork scoring =
      moving(seen.pairs * groups * (2.0 * double(getKey()) + 1),
             rowBytes(tokens, {getQ()}) + scores * kF32Bytes);
  seen.read(getKv().getType(), scoring);
  InstructionWork selecting =
      moving(4 * scores, rowBytes(tokens, {getResult()}) + 16 * scores);
  PhaseAttr phase = phaseOf(*this);
  int64_t blocks = phase ? phase.getContextLength() / int64_t(getRatio()) : 1;
  Temporary all = list.temporary(".scores", int64_t(getGroups()) *
                                                std::max<int64_t>(1, blocks));
  list.add(inst::BlockScores{.q = getQ(),
                             .kv = getKv(),
                             .out = all,
                             .groups = getGroups(),
                             .key = getKey(),
                             .ratio = getRatio(),
                             .local = getLocal()},
           scoring);
  list.add(inst::IndexSelect{.scores = all,
                             .chosen = getResult(),
                             .top_k = getTopK(),
                             .ratio = getRatio(),
                             .groups = getGroups(),
                             .local = getLocal()},
           selecting);
  return list;
}

int64_t BlockAttentionOp::getTopK() {
  return columns(getChosen()) / int64_t(getGroups());
}

int64_t BlockAttentionOp::getMostPositions() {
  return (getTopK() + std::max<int64_t>(1, int64_t(getLocal()))) *
         int64_t(getRatio());
}

LogicalResult BlockAttentionOp::verify() {
  int64_t heads = getHeads(), kvHeads = getKvHeads();
  int64_t key = getKey(), value = getValue(), groups = getGroups();
  OpChecks checks(*this);
  checks.size("heads", heads)
      .size("kv_heads", kvHeads)
      .size("key", key)
      .size("value", value)
      .size("ratio", getRatio())
      .size("groups", groups)
      .range("local", 0, INT32_MAX, getLocal());
  if (failed(checks.result()))
    return failure();
  return checks.positive("scale", getScale().convertToDouble())
      .tokens({getQ(), getChosen(), getResult()})
      .require(heads % kvHeads == 0, "expected kv_heads to divide heads")
      .require(groups == 1 || groups == kvHeads,
               "expected groups to be 1 or kv_heads")
      .require(columns(getChosen()) % groups == 0,
               "expected as many choices for each group")
      .equal("q columns", heads * key, "(heads * key)", columns(getQ()))
      .equal("result columns", heads * value, "(heads * value)",
             columns(getResult()))
      .equal("kv width", moek::gqaKvWidth(kvHeads, key, value),
             "of the padded heads", getKv().getType().getWidth())
      .result();
}

/// Chosen rows are read for each token.
Instructions BlockAttentionOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  const Seen seen(*this, execution, getMostPositions());
  InstructionWork work = moving(
      seen.pairs * double(getHeads()) *
          (2.0 * double(getKey()) + 2.0 * double(getValue()) + kSoftmaxFlops),
      rowBytes(double(execution.tokens), {getQ(), getResult()}));
  seen.read(getKv().getType(), work);
  work.kvBytes = seen.pairs * double(getKv().getType().getRowBytes());
  list.add(inst::BlockAttention{.q = getQ(),
                                .kv = getKv(),
                                .chosen = getChosen(),
                                .out = getResult(),
                                .heads = getHeads(),
                                .kv_heads = getKvHeads(),
                                .key = getKey(),
                                .value = getValue(),
                                .top_k = getTopK(),
                                .ratio = getRatio(),
                                .groups = getGroups(),
                                .local = getLocal(),
                                .scale = getScale()},
           work);
  return list;
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
      .range("pool", 1, getChosen() ? INT32_MAX : 1, getPool())
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
  return std::max(getChosen() ? mostChosen(getChosen(), getPool(), getRatio())
                              : 0,
                  int64_t(getWindow()));
}

/// Chosen rows are read for each token.
Instructions SparseAttentionOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  Value kv = getKv(), entries = getEntries(), chosen = getChosen();
  double pairs = 0, bytes = 0;
  if (kv) {
    const Seen seen(*this, execution, int64_t(getWindow()));
    pairs += seen.pairs;
    bytes += seen.rows * double(cast<KvType>(kv.getType()).getRowBytes());
  }
  if (entries) {
    double ratio = double(getRatio());
    int64_t most = chosen ? mostChosen(chosen, getPool(), getRatio()) : 0;
    const Seen seen(*this, execution, most);
    pairs += seen.pairs / ratio;
    bytes += (chosen ? seen.pairs : seen.rows) / ratio *
             double(cast<KvType>(entries.getType()).getRowBytes());
  }
  InstructionWork work = moving(
      pairs * double(getHeads()) *
          (2.0 * double(getKey()) + 2.0 * double(getValue()) + kSoftmaxFlops),
      rowBytes(double(execution.tokens), {getQ(), getResult()}));
  if (getSinks())
    work.weightBytes = double(columns(getSinks())) * kF32Bytes;
  work.kvBytes = bytes;
  work.kvType = cast<KvType>((kv ? kv : entries).getType()).getElement();
  work.window = getMostPositions();
  list.add(inst::SparseAttention{.q = getQ(),
                                 .kv = kv,
                                 .entries = entries,
                                 .chosen = chosen,
                                 .sinks = getSinks(),
                                 .out = getResult(),
                                 .heads = getHeads(),
                                 .key = getKey(),
                                 .value = getValue(),
                                 .window = getWindow(),
                                 .ratio = getRatio(),
                                 .top_k = chosen ? columns(chosen) : 0,
                                 .pool = getPool(),
                                 .scale = getScale()},
           work);
  return list;
}

//===----------------------------------------------------------------------===//
// Entries of several positions
//===----------------------------------------------------------------------===//

LogicalResult CompressOp::verify() {
  OpChecks checks(*this);
  int64_t cols = columns(getResult()) * (getOverlap() ? 2 : 1);
  return checks.range("layer", 0, INT32_MAX, getLayer())
      .range("part", 0, INT32_MAX, getPart())
      .size("ratio", getRatio())
      .tokens({getKv(), getGate() ? getGate() : getKv(), getResult()})
      .require(getGate() || !getApe(), "expected a gate with ape")
      .equal("kv columns", cols, "to match result columns", columns(getKv()))
      .equal("gate columns", cols, "to match result columns",
             getGate() ? columns(getGate()) : cols)
      .equal("ape columns", cols, "to match kv columns",
             getApe() ? columns(getApe()) : cols)
      .equal("ape rows", int64_t(getRatio()), "to match ratio",
             getApe() ? dim(getApe(), 0) : int64_t(getRatio()))
      .result();
}

int64_t CompressOp::getStateLayer() { return int64_t(getLayer()); }
int64_t CompressOp::getStatePart() { return int64_t(getPart()); }
int64_t CompressOp::getStateWidth() {
  return moek::compressStateWidth(columns(getResult()), getOverlap());
}

/// Each value and gate takes an addition, a maximum, two exponentials, and two
/// multiply-adds each for weights and sums.
Instructions CompressOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  InstructionWork work =
      moving(10 * tokens * double(columns(getKv())),
             rowBytes(tokens, {getKv()}) +
                 rowBytes(tokens / double(getRatio()), {getResult()}));
  if (getGate()) {
    work.activationBytes += rowBytes(tokens, {getGate()});
    work.weightBytes = bytesOf(getApe());
  }
  work.kvBytes = 2 * double(sequencesOf(*this, execution.tokens)) *
                 double(getStateWidth()) * kF32Bytes;
  list.add(inst::Compress{.kv = getKv(),
                          .gate = getGate(),
                          .ape = getApe(),
                          .state = Operand::state(),
                          .out = getResult(),
                          .ratio = getRatio(),
                          .overlap = getOverlap()},
           work);
  return list;
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
      .range("rope dimensions", 2, columns(getX()) - int64_t(getTail()),
             getRope().getDim())
      .range("tail", 0, columns(getX()), getTail())
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

Instructions EntryStoreOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double entries = double(execution.tokens) / double(getRatio());
  InstructionWork work = moving(
      entries * (4.0 * double(columns(getX())) + 3.0 * getRope().getDim()),
      rowBytes(entries, {getX()}));
  work.weightBytes = double(columns(getWeight())) * kF32Bytes;
  work.kvBytes = entries * double(getType().getRowBytes());
  list.add(inst::EntryStore{.x = getX(),
                            .weight = getWeight(),
                            .inv_freq = Operand::ropeFrequencies(getRope()),
                            .kv = getResult(),
                            .ratio = getRatio(),
                            .eps = getEps(),
                            .tail = getTail(),
                            .neox = getRope().getNeox()},
           work);
  return list;
}
