//===- Attention.cpp - Instructions of RoPE and attention -----------------===//

#include "dialects/moe/InstructionBuilders.h"
#include "dialects/moe/MoeWork.h"
#include "kernels/KvCache.h"
#include "kernels/KvSplitCount.h"
#include "kernels/Scratch.h"

using namespace mlir;
using namespace mlir::moe;

/// Makes the table of `rope`, which a function has once on each device: its
/// work is not the op's.
static void addRopeTable(Instructions &list, RopeAttr rope) {
  list.add(inst::RopeTable{.inv_freq = Operand::ropeFrequencies(rope),
                           .out = Operand::ropeTable(rope),
                           .scale = rope.getMagnitude()});
}

/// Rotates in place. Each pair of elements takes 4 multiplications and 2
/// additions.
Instructions RopeOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  RopeAttr rope = getRope();
  double turned = double(execution.tokens) * double(getHeads()) * rope.getDim();
  list.overwrite(getResult(), getX());
  addRopeTable(list, rope);
  list.add(inst::Rope{.x = getResult(),
                      .table = Operand::ropeTable(rope),
                      .heads = getHeads(),
                      .head_stride = columns(getX()) / int64_t(getHeads()),
                      .offset = getOffset(),
                      .dim = rope.getDim(),
                      .neox = rope.getNeox()},
           moving(3 * turned, 2 * turned * kF32Bytes));
  return list;
}

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

int64_t MlaLatentOp::getCacheLayer() { return int64_t(getLayer()); }

Value MlaLatentOp::getCache() { return getResult(); }

int64_t MlaLatentOp::getCacheBytes(int64_t rows) {
  return moek::kvBytes(getType().getElement(), getType().getWidth(), rows);
}

Instructions MlaLatentOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  double latent = double(columns(getWeight()));
  RopeAttr rope = getRope();
  InstructionWork work = moving(tokens * (4 * latent + 3.0 * rope.getDim()),
                                rowBytes(tokens, {getX()}));
  work.weightBytes = bytesOf(getWeight());
  work.kvBytes = tokens * double(getType().getRowBytes());
  addRopeTable(list, rope);
  list.add(inst::MlaLatent{.x = getX(),
                           .weight = getWeight(),
                           .table = Operand::ropeTable(rope),
                           .kv = getResult(),
                           .latent = columns(getX()) - rope.getDim(),
                           .rope = rope.getDim(),
                           .eps = getEps()},
           work);
  return list;
}

int64_t KvStoreOp::getCacheLayer() { return int64_t(getLayer()); }

Value KvStoreOp::getCache() { return getResult(); }

int64_t KvStoreOp::getCacheBytes(int64_t rows) {
  return moek::kvBytes(getType().getElement(), getType().getWidth(), rows);
}

Instructions KvStoreOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double tokens = double(execution.tokens);
  int64_t heads = getKvHeads();
  InstructionWork work = moving(0, rowBytes(tokens, {getK(), getV()}));
  work.kvBytes = tokens * double(getType().getRowBytes());
  list.add(inst::KvStore{.k = getK(),
                         .v = getV(),
                         .kv = getResult(),
                         .heads = heads,
                         .key = columns(getK()) / heads,
                         .value = columns(getV()) / heads},
           work);
  return list;
}

//===----------------------------------------------------------------------===//
// KV splits
//===----------------------------------------------------------------------===//

namespace {
/// The values on which the number of KV splits of an attention op depends.
struct Splitting {
  /// Groups of heads that a CPU's core, and a GPU's block, compute together.
  int64_t groups, gpuGroups;
  bool latent;          ///< Whether all groups read the same rows.
  int64_t window;       ///< Number of rows that a token sees; 0: all.
  int64_t partialBytes; ///< Bytes of a token's partial sums in one split.
};
} // namespace

/// Heads that a block of kernels/cuda/LatentMma.cu computes: those of one team
/// of warps, or of two.
static int64_t gpuLatentHeads(int64_t heads) { return heads > 16 ? 32 : 16; }
/// The most bytes of partial sums of a step on a GPU: with 64 sequences the
/// splits that two of them need would take gigabytes.
static constexpr int64_t kMostPartialBytes = int64_t(128) << 20;

/// Returns the number of KV splits with which the shortest step has one wave of
/// blocks on a GPU, at most one for each multiprocessor: a block's warps have
/// enough bytes in flight, a second wave would begin and end anew, and more
/// splits would have more partial sums.
static int64_t gpuKvSplits(PhaseAttr phase, int64_t multiprocessors,
                           const Splitting &s) {
  bool isBatch = phase.getSequences() > 1;
  if (!isBatch && phase.getMaxTokens() > kFewTokens)
    return 1;
  // Tokens of one sequence that share keys share a block too.
  int64_t blocks =
      (isBatch || s.latent ? phase.getMinTokens() : 1) * s.gpuGroups;
  int64_t rows = phase.getContextLength();
  if (s.window)
    rows = std::min(rows, s.window);
  int64_t affordable =
      kMostPartialBytes / (s.partialBytes * phase.getMaxTokens());
  int64_t wanted = std::max<int64_t>(
      1, std::min({multiprocessors / blocks, affordable, moek::kMostKvSplits}));
  int64_t most = llvm::divideCeil(rows, moek::leastSplitRows(wanted));
  // Splits stay short if there are enough rows for only a few.
  if (wanted > moek::kMostCpuKvSplits)
    most = std::max(most, moek::kMostCpuKvSplits + 1);
  return std::min(wanted, most);
}

/// Returns the number of KV splits: attention divides the cache so that a step
/// of few tokens has work for all cores of a CPU or multiprocessors of a GPU.
/// Each of `groups` of heads is work for a core, but where all groups read the
/// same rows one core computes them together if it can.
static int64_t kvSplits(Operation *op, const Execution &execution,
                        const Splitting &s) {
  PhaseAttr phase = phaseOf(op);
  if (phase && execution.multiprocessors)
    return gpuKvSplits(phase, execution.multiprocessors, s);
  if (!phase || execution.cores == 0)
    return 1;
  int64_t groups = s.groups;
  int64_t wanted = moek::fewestKvSplits(s.latent ? 1 : groups, execution.cores);
  if (phase.getSequences() > 1) {
    // Each token has its own cache and its groups of heads, which are further
    // parallel work. More splits than the shortest step needs would only add
    // partial sums in the longest one.
    int64_t items = phase.getMinTokens() * groups;
    wanted = std::max<int64_t>(1, (execution.cores + items - 1) / items);
  } else if (phase.getMaxTokens() > kFewTokens) {
    return 1;
  }
  int64_t rows = phase.getContextLength();
  if (s.window)
    rows = std::min(rows, s.window);
  int64_t most =
      llvm::divideCeil(rows, moek::leastSplitRows(moek::kMostCpuKvSplits));
  return std::min<int64_t>({wanted, most, moek::kMostCpuKvSplits});
}

/// The buffer that attention writes: its result, or the partial sums of KV
/// splits, which addCombine() adds up.
static Operand partialSums(Instructions &list, Value result, int64_t heads,
                           int64_t value, int64_t splits) {
  list.declare(result);
  if (splits == 1)
    return result;
  return list.temporary(".spans", heads * (value + 2), moek::Encoding::F32,
                        splits);
}

/// The measured seconds of attention include those of adding up its splits.
static void addCombine(Instructions &list, Operand sums, Value result,
                       int64_t heads, int64_t value, int64_t splits,
                       int64_t window) {
  list.add(inst::CombineSplits{.x = sums,
                               .out = result,
                               .heads = heads,
                               .latent = value,
                               .splits = splits,
                               .window = window});
  list.back().omitted = splits == 1;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Decompresses K and V of all C + T cached rows in every execution, which
/// reads W_UK and W_UV again: that makes it expensive for decode. The
/// decompressed rows are written and read once.
LogicalResult AlternativesOp::verify() {
  if (getWays().empty() || getWays().size() != getDevices().size())
    return emitOpError() << "expected devices for each of " << getWays().size()
                         << " ways, got " << getDevices().size();
  for (auto [way, devices] : llvm::zip_equal(getWays(), getDevices())) {
    auto names = dyn_cast<ArrayAttr>(devices);
    if (!names || !llvm::all_of(names, llvm::IsaPred<StringAttr>))
      return emitOpError() << "expected names of devices, got " << devices;
    if (way.getType() != getType())
      return emitOpError() << "expected ways of type " << getType() << ", got "
                           << way.getType();
  }
  return success();
}

Instructions MlaAttentionOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  double heads = double(getHeads()), nope = double(getNope());
  double rope = double(getRope()), value = double(getValue());
  const Seen seen(*this, execution,
                  getChosen() ? mostChosen(getChosen(), getPool()) : 0);
  double decompressed = seen.rows * heads * (nope + value);
  InstructionWork work = moving(
      seen.pairs * heads * (2 * (nope + rope) + 2 * value + kSoftmaxFlops),
      rowBytes(double(execution.tokens), {getQ(), getResult()}) +
          2 * decompressed * kF32Bytes);
  work.products = {product(getWk(), seen.rows, heads),
                   product(getWv(), seen.rows, heads)};
  seen.read(getKv().getType(), work);
  Value none;
  if (getChosen())
    // The result stands for all forms with which moe-absorb-mla replaces the
    // op.
    list.add(inst::SparseAttention{.q = getQ(),
                                   .kv = std::nullopt,
                                   .entries = getKv(),
                                   .chosen = getChosen(),
                                   .sinks = std::nullopt,
                                   .out = getResult(),
                                   .heads = getHeads(),
                                   .key = getLatent() + getRope(),
                                   .value = getLatent(),
                                   .window = 0,
                                   .ratio = 1,
                                   .top_k = columns(getChosen()),
                                   .pool = getPool(),
                                   .scale = getScale()},
             work);
  else
    list.add(inst::MlaAttention{.q = getQ(),
                                .kv = getKv(),
                                .wk = getKTransposed() ? none : Value(getWk()),
                                .wk_transposed =
                                    getKTransposed() ? Value(getWk()) : none,
                                .wv = getWv(),
                                .out = getResult(),
                                .heads = getHeads(),
                                .nope = getNope(),
                                .rope = getRope(),
                                .latent = getLatent(),
                                .value = getValue(),
                                .scale = getScale()},
             work);
  return list;
}

/// Computes [weight[h] x[h] | last `tail` columns of x[h]] for each head h.
static Instructions headLinear(Operation *op, Value x, Value weight,
                               int64_t tail, const InstructionWork &work) {
  Instructions list(op);
  list.add(inst::HeadLinear{.x = x,
                            .w = weight,
                            .out = op->getResult(0),
                            .heads = dim(weight, 0),
                            .rows = dim(weight, 1),
                            .cols = dim(weight, 2),
                            .tail = tail},
           work);
  return list;
}

Instructions AbsorbQueryOp::getInstructions(const Execution &execution) {
  double tokens = double(execution.tokens);
  InstructionWork work = moving(0, rowBytes(tokens, {getQ(), getResult()}));
  work.products = {product(getWk(), tokens, double(getHeads()))};
  if (getKTransposed())
    return headLinear(*this, getQ(), getWk(), int64_t(getRope()), work);
  Instructions list(*this);
  list.add(inst::AbsorbQuery{.q = getQ(),
                             .w = getWk(),
                             .out = getResult(),
                             .heads = getHeads(),
                             .nope = getNope(),
                             .rope = getRope(),
                             .latent = getLatent()},
           work);
  return list;
}

Instructions ExpandValueOp::getInstructions(const Execution &execution) {
  double tokens = double(execution.tokens);
  InstructionWork work = moving(0, rowBytes(tokens, {getX(), getResult()}));
  work.products = {product(getWv(), tokens, double(getHeads()))};
  return headLinear(*this, getX(), getWv(), /*tail=*/0, work);
}

Instructions LatentAttentionOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  int64_t heads = getHeads(), latent = getLatent(), rope = getRope();
  const Seen seen(*this, execution);
  InstructionWork work =
      moving(seen.pairs * double(heads) *
                 (2 * (double(latent) + double(rope)) + 2 * double(latent) +
                  kSoftmaxFlops),
             rowBytes(double(execution.tokens), {getQ(), getResult()}));
  seen.read(getKv().getType(), work);
  int64_t splits = kvSplits(
      *this, execution,
      {.groups = int64_t(llvm::divideCeil(heads, moek::kLatentHeads)),
       .gpuGroups = int64_t(llvm::divideCeil(heads, gpuLatentHeads(heads))),
       .latent = true,
       .window = 0,
       .partialBytes = heads * (latent + 2) * 4});
  Operand sums = partialSums(list, getResult(), heads, latent, splits);
  list.add(inst::LatentAttention{.q = getQ(),
                                 .kv = getKv(),
                                 .out = sums,
                                 .heads = heads,
                                 .latent = latent,
                                 .rope = rope,
                                 .splits = splits,
                                 .scale = getScale()},
           work);
  addCombine(list, sums, getResult(), heads, latent, splits, /*window=*/0);
  return list;
}

Instructions GqaAttentionOp::getInstructions(const Execution &execution) {
  Instructions list(*this);
  int64_t heads = getHeads(), value = getValue(), window = getWindow();
  const Seen seen(*this, execution, window);
  double capped = getSoftcap().isZero() ? 0 : kSoftcapFlops;
  InstructionWork work =
      moving(seen.pairs * double(heads) *
                 (2.0 * double(getKey()) + 2.0 * double(value) + kSoftmaxFlops +
                  capped),
             rowBytes(double(execution.tokens), {getQ(), getResult()}));
  work.weightBytes = bytesOf(getSinks());
  seen.read(getKv().getType(), work);
  int64_t splits = kvSplits(*this, execution,
                            {.groups = int64_t(getKvHeads()),
                             .gpuGroups = int64_t(getKvHeads()),
                             .latent = false,
                             .window = window,
                             .partialBytes = heads * (value + 2) * 4});
  Operand sums = partialSums(list, getResult(), heads, value, splits);
  list.add(inst::Attention{.q = getQ(),
                           .kv = getKv(),
                           .sinks = getSinks(),
                           .out = sums,
                           .heads = heads,
                           .kv_heads = getKvHeads(),
                           .key = getKey(),
                           .value = value,
                           .splits = splits,
                           .window = window,
                           .scale = getScale(),
                           .softcap = getSoftcap()},
           work);
  addCombine(list, sums, getResult(), heads, value, splits, window);
  return list;
}
