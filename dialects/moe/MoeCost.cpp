//===- MoeCost.cpp - What ops cost ----------------------------------------===//
//
// What each instruction of an op does, by counting the arithmetic of the op's
// definition: a
// multiply-accumulate is 2, an exponential or a division 1. Every weight byte
// an op needs is counted once per execution, every activation that it reads or
// writes once as F32; what a blocked kernel keeps in its cache is not traffic.
// T tokens sit at positions C .. C + T - 1, so that token t sees C + t + 1;
// where they are of S sequences, T / S of each sit behind C of their own.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/ExpertFrequencies.h"
#include "dialects/moe/MoeWork.h"
#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

namespace {
/// exp, add, divide, multiply.
constexpr double kActivationFlops = 4;
/// Divide, take tanh, multiply.
constexpr double kSoftcapFlops = 3;

double bytesOf(Value weight) {
  return weight
             ? double(getTensorBytes(cast<RankedTensorType>(weight.getType())))
             : 0;
}

using Works = SmallVector<StepWork>;

/// `matrices` of `weight` times `rows` rows of activations each.
Product product(Value weight, double rows, double matrices = 1) {
  return {weight, matrices, rows};
}

/// `residual` added to what the last of `works` writes, or by an instruction
/// of its own.
void addResidual(Works &works, Operation *op, Value residual, double tokens) {
  if (!residual)
    return;
  if (!residualDiesIn(op, residual))
    works.emplace_back();
  works.back().ops += tokens * double(columns(residual));
  works.back().activationBytes += rowBytes(tokens, {residual});
}

/// Adds to `work` that `bias`, if there is one, is added to `rows` rows; of
/// several, `vectors` are read.
void addBias(StepWork &work, Value bias, double rows, double vectors = 1) {
  if (!bias)
    return;
  work.ops += rows * double(columns(bias));
  work.weightBytes += vectors * double(columns(bias)) * kF32Bytes;
}

/// T times a [rows, K] matrix, with one add for the bias.
Works matrixWork(double tokens, Value x, Value weight, Value bias,
                 Value result) {
  StepWork work = moving(0, rowBytes(tokens, {x, result}));
  work.products = {product(weight, tokens)};
  addBias(work, bias, tokens);
  return {work};
}

/// A gated FFN of `rows` rows of `inner` columns, each of the weights' matrices
/// with rows / matrices of them. Fused, the product of gate and up is written
/// and read; otherwise both factors too.
template <typename Op>
Works gatedWork(Op op, double rows, double matrices, double inner) {
  double each = rows / matrices, bytes = rows * inner * kF32Bytes;
  double activationMul = rows * inner * kActivationFlops;
  Product gate = product(op.getGate(), each, matrices);
  Product up = product(op.getUp(), each, matrices);
  Works works;
  if (op.getFused()) {
    works.push_back(moving(activationMul, bytes));
    works.back().products = {gate, up};
  } else {
    for (const Product &factor : {gate, up}) {
      works.push_back(moving(0, bytes));
      works.back().products = {factor};
    }
    works.push_back(moving(activationMul, 3 * bytes));
  }
  addBias(works[0], op.getGateBias(), rows, matrices);
  addBias(works[op.getFused() ? 0 : 1], op.getUpBias(), rows, matrices);
  works.push_back(moving(0, bytes));
  works.back().products = {product(op.getDown(), each, matrices)};
  addBias(works.back(), op.getDownBias(), rows, matrices);
  return works;
}
} // namespace

int64_t moe::sequencesOf(Operation *op, int64_t tokens) {
  for (; op; op = op->getParentOp())
    if (auto phase = op->getAttrOfType<PhaseAttr>(kPhaseAttr))
      return std::clamp<int64_t>(tokens, 1, phase.getSequences());
  return 1;
}

bool moe::isWeight(Value value) {
  return isa_and_nonnull<WeightRefOp>(value.getDefiningOp());
}

int64_t moe::sumWeightBytes(Operation *op) {
  int64_t bytes = 0;
  for (Value operand : op->getOperands())
    if (isWeight(operand))
      bytes += getTensorBytes(cast<RankedTensorType>(operand.getType()));
  return bytes;
}

void Choices::forEach(llvm::function_ref<void(double, double)> visit) const {
  if (shares.empty())
    return visit(matrices, chance);
  for (float share : shares)
    visit(1, std::min(chance * double(share), 1.0));
}

double Choices::chosen() const {
  double sum = 0;
  forEach([&](double count, double chance) {
    sum += count * (1 - std::pow(1 - chance, double(tokens)));
  });
  return sum;
}

double Product::elements() const {
  auto type = cast<RankedTensorType>(weight.getType());
  double outer = type.getRank() > 2 ? double(type.getDimSize(0)) : 1;
  return matrices / outer * double(type.getNumElements());
}

double Product::bytes() const {
  auto type = cast<RankedTensorType>(weight.getType());
  double outer = type.getRank() > 2 ? double(type.getDimSize(0)) : 1;
  return matrices / outer * bytesOf(weight);
}

Cost StepWork::cost() const {
  Cost cost{ops, weightBytes, activationBytes, kvBytes};
  for (const Product &product : products) {
    cost.flops += product.flops();
    cost.weightBytes += product.bytes();
  }
  return cost;
}

Cost moe::sumWork(ArrayRef<StepWork> works) {
  Cost cost;
  for (const StepWork &work : works)
    cost += work.cost();
  return cost;
}

SmallVector<WorkTerms> moe::workTerms(CostOpInterface op) {
  // With t of tokenOps, s of seenOps and r of rowOps these are t + s + r,
  // 2 t + 3 s + 2 r, and t + 2 s + 2 r; where each token is of another sequence
  // the second is twice the first, and rows are counted like pairs. Behind a
  // full window all of it is tokenOps: steps before that are said to do more.
  int64_t full = 0;
  if (auto attention = dyn_cast<GqaAttentionOp>(op.getOperation()))
    full = int64_t(attention.getWindow());
  else if (auto sparse = dyn_cast<SparseAttentionOp>(op.getOperation()))
    full = sparse.getMostPositions();
  SmallVector<StepWork> one = op.getWork(1, full), two = op.getWork(2, full),
                        behind = op.getWork(1, full + 1);
  SmallVector<WorkTerms> all;
  for (auto [a, b, c] : llvm::zip_equal(one, two, behind)) {
    Cost first = a.cost(), both = b.cost();
    WorkTerms terms;
    terms.seenOps = both.flops - 2 * first.flops;
    terms.rowOps = c.cost().flops - first.flops - terms.seenOps;
    terms.tokenOps = first.flops - terms.seenOps - terms.rowOps;
    terms.firstBytes = first.weightBytes;
    if (first.weightBytes > 0)
      terms.again =
          std::clamp(both.weightBytes / first.weightBytes - 1, 0.0, 1.0);
    // Sums of large counts may differ by a rounding.
    for (double *ops : {&terms.tokenOps, &terms.seenOps, &terms.rowOps})
      if (*ops < 1e-9 * first.flops)
        *ops = 0;
    all.push_back(terms);
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Whole-row ops
//===----------------------------------------------------------------------===//

/// Reads only its columns of the rows of the step's tokens.
Works EmbeddingOp::getWork(int64_t tokens, int64_t context) {
  double read = double(columns(getResult())) / double(columns(getTable()));
  double row = bytesOf(getTable()) / double(dim(getTable(), 0));
  StepWork work = moving(0, rowBytes(tokens, {getResult()}) +
                                double(tokens) * sizeof(int32_t));
  work.weightBytes = row * read * double(tokens);
  return {work};
}

Works RmsNormOp::getWork(int64_t tokens, int64_t context) {
  StepWork work = moving(4.0 * double(tokens) * double(columns(getX())),
                         rowBytes(tokens, {getX(), getResult()}));
  work.weightBytes = bytesOf(getWeight());
  return {work};
}

Works LinearOp::getWork(int64_t tokens, int64_t context) {
  Works works = matrixWork(tokens, getX(), getWeight(), getBias(), getResult());
  addResidual(works, getOperation(), getResidual(), tokens);
  return works;
}

/// A multiplication; with a softcap as of attention's scores.
Works ScaleOp::getWork(int64_t tokens, int64_t context) {
  double each = getSoftcap().isZero() ? 1 : 1 + kSoftcapFlops;
  return {moving(each * double(tokens) * double(columns(getX())),
                 rowBytes(tokens, {getX(), getResult()}))};
}

Works ActivationMulOp::getWork(int64_t tokens, int64_t context) {
  return {
      moving(kActivationFlops * double(tokens) * double(columns(getResult())),
             rowBytes(tokens, {getGate(), getUp(), getResult()}))};
}

/// Exponential, addition, division, multiplication.
Works SigmoidMulOp::getWork(int64_t tokens, int64_t context) {
  return {moving(double(tokens) * (double(columns(getX())) +
                                   3.0 * double(columns(getGate()))),
                 rowBytes(tokens, {getX(), getGate(), getResult()}))};
}

Works AddOp::getWork(int64_t tokens, int64_t context) {
  return {moving(double(tokens) * double(columns(getLhs())),
                 rowBytes(tokens, {getLhs(), getRhs(), getResult()}))};
}

Works LayerNormOp::getWork(int64_t tokens, int64_t context) {
  StepWork work = moving(8.0 * double(tokens) * double(columns(getX())),
                         rowBytes(tokens, {getX(), getResult()}));
  work.weightBytes = bytesOf(getWeight()) + bytesOf(getBias());
  return {work};
}

Works FfnOp::getWork(int64_t tokens, int64_t context) {
  Works works = gatedWork(*this, tokens, 1, dim(getGate(), 0));
  works.front().activationBytes += rowBytes(tokens, {getX()});
  works.back().activationBytes += rowBytes(tokens, {getResult()});
  addResidual(works, getOperation(), getResidual(), tokens);
  return works;
}

Works LmHeadOp::getWork(int64_t tokens, int64_t context) {
  return matrixWork(tokens, getX(), getWeight(), /*bias=*/nullptr, getResult());
}

/// The bytes that cross the link, once.
Works TransferOp::getWork(int64_t tokens, int64_t context) {
  auto type = cast<RankedTensorType>(getX().getType());
  double elements = double(tokens);
  for (int64_t size : type.getShape().drop_front())
    elements *= double(size);
  return {moving(0, elements * type.getElementTypeBitWidth() / 8)};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Per pair of elements 4 multiplications and 2 additions; in place. The table
/// is the function's.
Works RopeOp::getWork(int64_t tokens, int64_t context) {
  double turned = double(tokens) * double(getHeads()) * getRope().getDim();
  return {{}, moving(3 * turned, 2 * turned * kF32Bytes)};
}

int64_t MlaLatentOp::getCacheLayer() { return int64_t(getLayer()); }

Value MlaLatentOp::getCache() { return getResult(); }

int64_t MlaLatentOp::getCacheBytes(int64_t rows) {
  return moek::kvBytes(getType().getElement(), getType().getWidth(), rows);
}

Works MlaLatentOp::getWork(int64_t tokens, int64_t context) {
  double latent = double(columns(getWeight()));
  StepWork work =
      moving(double(tokens) * (4 * latent + 3.0 * getRope().getDim()),
             rowBytes(tokens, {getX()}));
  work.weightBytes = bytesOf(getWeight());
  work.kvBytes = double(tokens) * double(getType().getRowBytes());
  return {{}, work};
}

/// Decompresses K and V of all C + T cached rows in every execution, which
/// reads W_UK and W_UV again: that is what makes it dear for decode. The
/// decompressed rows are written and read once.
Works MlaAttentionOp::getWork(int64_t tokens, int64_t context) {
  double heads = double(getHeads()), nope = double(getNope());
  double rope = double(getRope()), value = double(getValue());
  const Seen seen(*this, tokens, context,
                  getChosen() ? columns(getChosen()) : 0);
  double decompressed = seen.rows * heads * (nope + value);
  StepWork work = moving(
      seen.pairs * heads * (2 * (nope + rope) + 2 * value + kSoftmaxFlops),
      rowBytes(tokens, {getQ(), getResult()}) + 2 * decompressed * kF32Bytes);
  work.products = {product(getWk(), seen.rows, heads),
                   product(getWv(), seen.rows, heads)};
  seen.read(getKv().getType(), work);
  return {work};
}

Works AbsorbQueryOp::getWork(int64_t tokens, int64_t context) {
  StepWork work = moving(0, rowBytes(tokens, {getQ(), getResult()}));
  work.products = {product(getWk(), tokens, double(getHeads()))};
  return {work};
}

/// Adding spans up is part of what is measured of the first instruction.
Works LatentAttentionOp::getWork(int64_t tokens, int64_t context) {
  double latent = double(getLatent()), rope = double(getRope());
  const Seen seen(*this, tokens, context);
  StepWork work = moving(seen.pairs * double(getHeads()) *
                             (2 * (latent + rope) + 2 * latent + kSoftmaxFlops),
                         rowBytes(tokens, {getQ(), getResult()}));
  seen.read(getKv().getType(), work);
  return {work, {}};
}

Works ExpandValueOp::getWork(int64_t tokens, int64_t context) {
  StepWork work = moving(0, rowBytes(tokens, {getX(), getResult()}));
  work.products = {product(getWv(), tokens, double(getHeads()))};
  return {work};
}

int64_t KvStoreOp::getCacheLayer() { return int64_t(getLayer()); }

Value KvStoreOp::getCache() { return getResult(); }

int64_t KvStoreOp::getCacheBytes(int64_t rows) {
  return moek::kvBytes(getType().getElement(), getType().getWidth(), rows);
}

Works KvStoreOp::getWork(int64_t tokens, int64_t context) {
  StepWork work = moving(0, rowBytes(tokens, {getK(), getV()}));
  work.kvBytes = double(tokens) * double(getType().getRowBytes());
  return {work};
}

/// Adding spans up is part of what is measured of the first instruction.
Works GqaAttentionOp::getWork(int64_t tokens, int64_t context) {
  const Seen seen(*this, tokens, context, int64_t(getWindow()));
  double capped = getSoftcap().isZero() ? 0 : kSoftcapFlops;
  StepWork work =
      moving(seen.pairs * double(getHeads()) *
                 (2.0 * double(getKey()) + 2.0 * double(getValue()) +
                  kSoftmaxFlops + capped),
             rowBytes(tokens, {getQ(), getResult()}));
  work.weightBytes = bytesOf(getSinks());
  seen.read(getKv().getType(), work);
  return {work, {}};
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

/// Scores like a softmax over the experts, whichever function it is.
Works RouterOp::getWork(int64_t tokens, int64_t context) {
  double experts = double(dim(getWeight(), 0));
  StepWork logits = moving(0, rowBytes(tokens, {getX()}));
  logits.products = {product(getWeight(), tokens)};
  addBias(logits, getLogitBias(), tokens);
  StepWork choose = moving(double(tokens) * experts * kSoftmaxFlops,
                           rowBytes(tokens, {getIds(), getWeights()}));
  choose.weightBytes = bytesOf(getBias()) + bytesOf(getExpertScale());
  if (!isGrouped(getIds()))
    return {logits, choose};
  return {logits, choose, {}};
}

Works HashRouterOp::getWork(int64_t tokens, int64_t context) {
  double experts = double(dim(getWeight(), 0));
  StepWork logits = moving(0, rowBytes(tokens, {getX()}));
  logits.products = {product(getWeight(), tokens)};
  StepWork choose = moving(double(tokens) * experts * kSoftmaxFlops,
                           rowBytes(tokens, {getIds(), getWeights()}));
  choose.weightBytes =
      rowBytes(tokens, {getTable()}) + bytesOf(getExpertScale());
  if (!isGrouped(getIds()))
    return {logits, choose};
  return {logits, choose, {}};
}

Works SplitChoicesOp::getWork(int64_t tokens, int64_t context) {
  double used = double(columns(getIds()));
  // A comparison for each two choices; all are read and written once.
  Works works{moving(double(tokens) * used * used,
                     2 * rowBytes(tokens, {getIds(), getWeights()}))};
  works.append(size_t(isGrouped(getFirstIds())) +
                   size_t(isGrouped(getLastIds())),
               StepWork());
  return works;
}

/// With k of E experts per token, chosen independently and, where no router
/// profile is known, uniformly, T tokens touch E * (1 - (1 - k/E)^T) different
/// ones. Of a slice k and E are those of it alone.
Works ExpertsOp::getWork(int64_t tokens, int64_t context) {
  ExpertSliceAttr slice = getSliceAttr();
  double experts = double(dim(getGate(), 0)), used = double(columns(getIds()));
  if (slice) {
    used *= slice.getShare();
    // With a map others' matrices may lie between.
    if (!slice.getMap().empty())
      experts = double(llvm::count_if(
          slice.getMap(), [](double number) { return number >= 0; }));
    used = std::clamp(used, 1e-6, experts);
  }
  Choices choices{tokens, experts, used / experts, {}};
  if (auto known =
          getOperation()->getAttrOfType<DenseF32ArrayAttr>(kFrequenciesAttr)) {
    choices.shares = known.asArrayRef();
    choices.chance = used / std::accumulate(choices.shares.begin(),
                                            choices.shares.end(), 0.0);
  }
  double slots = double(tokens) * used, touched = choices.chosen();
  Works works = gatedWork(*this, slots, touched, dim(getGate(), 1));
  for (StepWork &work : works)
    if (!work.products.empty())
      work.choices = choices;
  if (hasScales()) {
    StepWork &activationMul = works[2]; // Behind gate and up.
    for (Value scale : {getGateScale(), getUpScale()})
      if (scale) {
        activationMul.ops += slots * double(dim(getGate(), 1));
        activationMul.weightBytes += touched * kF32Bytes;
      }
  }
  double results = rowBytes(slots, {getResult()});
  works.front().activationBytes +=
      rowBytes(tokens, {getX(), getIds(), getWeights()});
  works.back().activationBytes += results;
  // The weighted sum of the slots' rows, each written and read once.
  works.push_back(moving(2 * slots * double(columns(getX())),
                         results + rowBytes(tokens, {getResult()})));
  addResidual(works, getOperation(), getResidual(), tokens);
  if (slice)
    works.insert(works.begin(), StepWork());
  return works;
}
