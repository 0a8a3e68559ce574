//===- MoeCost.cpp - What ops cost ----------------------------------------===//
//
// FLOPs and bytes by counting the arithmetic of each op's definition: a
// multiply-accumulate is 2, an exponential or a division 1. Every weight byte
// an op needs is counted once per execution, every activation that it reads or
// writes once as F32; what a blocked kernel keeps in its cache is not traffic.
// T tokens sit at positions C .. C + T - 1, so that token t sees C + t + 1;
// where they are of S sequences, T / S of each sit behind C of their own.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/MoeVerify.h"
#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::moe;

namespace {
/// exp, add, divide, multiply.
constexpr double kSiluMulFlops = 4;
/// Of a score: subtract the maximum, exp, add to the sum, scale.
constexpr double kSoftmaxFlops = 4;
constexpr double kF32Bytes = 4;

double bytesOf(Value weight) {
  return weight
             ? double(getTensorBytes(cast<RankedTensorType>(weight.getType())))
             : 0;
}

/// Bytes of `rows` rows of each of `values`, without those that are absent.
double rowBytes(double rows, std::initializer_list<Value> values) {
  double bytes = 0;
  for (Value value : values)
    if (value)
      bytes += rows * double(columns(value)) * kF32Bytes;
  return bytes;
}

/// Bytes of `rows` rows of `width` elements of the cache.
double kvRowsBytes(Operation *op, double rows, int64_t width) {
  return rows * double(moek::kvRowBytes(kvTypeOf(op), width));
}

/// What the tokens of a step see of the cache.
struct Seen {
  double rows;  ///< Of all sequences.
  double pairs; ///< Of a token with a position: sum of C + t + 1.

  Seen(Operation *op, int64_t tokens, int64_t context) {
    double sequences = double(sequencesOf(op, tokens));
    double each = double(tokens) / sequences;
    rows = sequences * (double(context) + each);
    pairs = sequences * (each * double(context) + each * (each + 1) / 2);
  }

  /// Bytes of the rows that attention on `kv` reads: each once.
  double bytes(Operation *op, Value kv) const {
    return kvRowsBytes(op, rows, cast<KvType>(kv.getType()).getWidth());
  }
};

/// T times a [rows, K] matrix, with one add each for bias and residual.
Cost matrixCost(double tokens, Value x, Value weight, Value bias,
                Value residual, Value result) {
  double outputs = double(columns(result));
  Cost cost;
  cost.flops = tokens * outputs *
               (2 * double(columns(x)) + (bias ? 1 : 0) + (residual ? 1 : 0));
  cost.weightBytes = bytesOf(weight) + bytesOf(bias);
  cost.activationBytes = rowBytes(tokens, {x, residual, result});
  return cost;
}

/// A gated FFN of `rows` rows of `hidden` columns through `inner`. `fused`:
/// the product of gate and up is written and read; otherwise both factors too.
Cost gatedCost(double rows, double hidden, double inner, bool fused) {
  Cost cost;
  cost.flops = rows * inner * (6 * hidden + kSiluMulFlops);
  cost.activationBytes = rows * inner * kF32Bytes * (fused ? 2 : 6);
  return cost;
}
} // namespace

moek::KvType moe::kvTypeOf(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto name = op->getAttrOfType<StringAttr>(kKvTypeAttr))
      return moek::kvTypeFromName(std::string_view(name.getValue()))
          .value_or(moek::KvType::BF16);
  return moek::KvType::BF16;
}

int64_t moe::sequencesOf(Operation *op, int64_t tokens) {
  for (; op; op = op->getParentOp())
    if (auto phase = op->getAttrOfType<PhaseAttr>(kPhaseAttr))
      return std::clamp<int64_t>(tokens, 1, phase.getSequences());
  return 1;
}

bool moe::isWeight(Value value) {
  return isa_and_nonnull<WeightOp, SplitKvBOp, FoldQueryOp, TransposeOp>(
      value.getDefiningOp());
}

int64_t moe::sumWeightBytes(Operation *op) {
  int64_t bytes = 0;
  for (Value operand : op->getOperands())
    if (isWeight(operand))
      bytes += getTensorBytes(cast<RankedTensorType>(operand.getType()));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Whole-row ops
//===----------------------------------------------------------------------===//

/// Reads only the rows of the step's tokens.
Cost EmbeddingOp::getCost(int64_t tokens, int64_t context) {
  double rows = double(dim(getTable(), 0));
  Cost cost;
  cost.weightBytes = bytesOf(getTable()) / rows * double(tokens);
  cost.activationBytes =
      rowBytes(tokens, {getResult()}) + double(tokens) * sizeof(int32_t);
  return cost;
}

Cost RmsNormOp::getCost(int64_t tokens, int64_t context) {
  Cost cost;
  cost.flops = 4.0 * double(tokens) * double(columns(getX()));
  cost.weightBytes = bytesOf(getWeight());
  cost.activationBytes = rowBytes(tokens, {getX(), getResult()});
  return cost;
}

Cost LinearOp::getCost(int64_t tokens, int64_t context) {
  return matrixCost(tokens, getX(), getWeight(), getBias(), getResidual(),
                    getResult());
}

Cost AddOp::getCost(int64_t tokens, int64_t context) {
  Cost cost;
  cost.flops = double(tokens) * double(columns(getLhs()));
  cost.activationBytes = rowBytes(tokens, {getLhs(), getRhs(), getResult()});
  return cost;
}

Cost FfnOp::getCost(int64_t tokens, int64_t context) {
  Cost cost = gatedCost(tokens, columns(getX()), dim(getGate(), 0), getFused());
  cost.weightBytes = bytesOf(getGate()) + bytesOf(getUp()) + bytesOf(getDown());
  cost.activationBytes +=
      rowBytes(tokens, {getX(), getResidual(), getResult()});
  if (getResidual())
    cost.flops += double(tokens) * double(columns(getResult()));
  return cost;
}

Cost LmHeadOp::getCost(int64_t tokens, int64_t context) {
  return matrixCost(tokens, getX(), getWeight(), /*bias=*/nullptr,
                    /*residual=*/nullptr, getResult());
}

/// The bytes that cross the link, once.
Cost TransferOp::getCost(int64_t tokens, int64_t context) {
  Cost cost;
  auto type = cast<RankedTensorType>(getX().getType());
  double elements = double(tokens);
  for (int64_t size : type.getShape().drop_front())
    elements *= double(size);
  cost.activationBytes = elements * type.getElementTypeBitWidth() / 8;
  return cost;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Per pair of elements 4 multiplications and 2 additions; in place.
Cost RopeOp::getCost(int64_t tokens, int64_t context) {
  double turned = double(tokens) * double(getHeads()) * getRope().getDim();
  Cost cost;
  cost.flops = 3 * turned;
  cost.activationBytes = 2 * turned * kF32Bytes;
  return cost;
}

Cost MlaLatentOp::getCost(int64_t tokens, int64_t context) {
  Cost cost;
  double latent = double(columns(getWeight()));
  cost.flops = double(tokens) * (4 * latent + 3.0 * getRope().getDim());
  cost.weightBytes = bytesOf(getWeight());
  cost.activationBytes = rowBytes(tokens, {getX()});
  cost.kvBytes = kvRowsBytes(*this, double(tokens), columns(getX()));
  return cost;
}

/// Decompresses K and V of all C + T cached rows in every execution, which
/// reads W_UK and W_UV again: that is what makes it dear for decode. The
/// decompressed rows are written and read once.
Cost MlaAttentionOp::getCost(int64_t tokens, int64_t context) {
  double heads = double(getHeads()), nope = double(getNope());
  double rope = double(getRope()), value = double(getValue());
  const Seen seen(*this, tokens, context);
  double decompressed = seen.rows * heads * (nope + value);
  Cost cost;
  cost.flops =
      2 * decompressed * double(getLatent()) +
      seen.pairs * heads * (2 * (nope + rope) + 2 * value + kSoftmaxFlops);
  cost.weightBytes = bytesOf(getWk()) + bytesOf(getWv());
  cost.activationBytes =
      rowBytes(tokens, {getQ(), getResult()}) + 2 * decompressed * kF32Bytes;
  cost.kvBytes = seen.bytes(*this, getKv());
  return cost;
}

Cost AbsorbQueryOp::getCost(int64_t tokens, int64_t context) {
  Cost cost;
  cost.flops = 2.0 * double(tokens) * double(getHeads()) * double(getNope()) *
               double(getLatent());
  cost.weightBytes = bytesOf(getWk());
  cost.activationBytes = rowBytes(tokens, {getQ(), getResult()});
  return cost;
}

Cost LatentAttentionOp::getCost(int64_t tokens, int64_t context) {
  double latent = double(getLatent()), rope = double(getRope());
  const Seen seen(*this, tokens, context);
  Cost cost;
  cost.flops = seen.pairs * double(getHeads()) *
               (2 * (latent + rope) + 2 * latent + kSoftmaxFlops);
  cost.activationBytes = rowBytes(tokens, {getQ(), getResult()});
  cost.kvBytes = seen.bytes(*this, getKv());
  return cost;
}

Cost ExpandValueOp::getCost(int64_t tokens, int64_t context) {
  Cost cost;
  cost.flops = 2.0 * double(tokens) * double(getHeads()) * double(getLatent()) *
               double(getValue());
  cost.weightBytes = bytesOf(getWv());
  cost.activationBytes = rowBytes(tokens, {getX(), getResult()});
  return cost;
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

/// Scores like a softmax over the experts, whichever function it is.
Cost RouterOp::getCost(int64_t tokens, int64_t context) {
  double experts = double(dim(getWeight(), 0));
  Cost cost;
  cost.flops =
      double(tokens) * experts * (2 * double(columns(getX())) + kSoftmaxFlops);
  cost.weightBytes = bytesOf(getWeight()) + bytesOf(getBias());
  cost.activationBytes = rowBytes(tokens, {getX(), getIds(), getWeights()});
  return cost;
}

/// With k of E experts per token, chosen uniformly and independently, T tokens
/// touch E * (1 - (1 - k/E)^T) different ones.
Cost ExpertsOp::getCost(int64_t tokens, int64_t context) {
  double experts = double(dim(getGate(), 0));
  double slots = double(tokens) * double(columns(getIds()));
  double share =
      1 - std::pow(1 - double(columns(getIds())) / experts, double(tokens));
  Cost cost = gatedCost(slots, columns(getX()), dim(getGate(), 1), getFused());
  // Weighted sum of the slots' rows, each written and read once.
  cost.flops += 2 * slots * double(columns(getX()));
  cost.activationBytes += 2 * rowBytes(slots, {getResult()});
  cost.weightBytes =
      share * (bytesOf(getGate()) + bytesOf(getUp()) + bytesOf(getDown()));
  cost.activationBytes += rowBytes(
      tokens, {getX(), getIds(), getWeights(), getResidual(), getResult()});
  if (getResidual())
    cost.flops += double(tokens) * double(columns(getResult()));
  return cost;
}
