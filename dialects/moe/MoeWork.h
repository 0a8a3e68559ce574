//===- MoeWork.h - Counts the work of instructions --------------*- C++ -*-===//
//
// For getInstructions(). Work is counted from the arithmetic of an op's
// definition: a multiply-accumulate is 2, an exponential or a division 1. Every
// weight byte that an op needs is counted once per execution, every activation
// that it reads or writes once as F32; what a blocked kernel keeps in its cache
// is not traffic. T tokens are at positions C .. C + T - 1, so that token t
// sees C + t + 1 of them; where they belong to S sequences, T / S of each are
// behind C of their own.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MOE_MOEWORK_H
#define MOE_DIALECTS_MOE_MOEWORK_H

#include "dialects/moe/MoeVerify.h"

#include <algorithm>

namespace mlir::moe {

/// For each score: subtract the maximum, exp, add to the sum, scale.
inline constexpr double kSoftmaxFlops = 4;
/// An exponential, an addition, a division and a multiplication.
inline constexpr double kActivationFlops = 4;
/// A division, tanh and a multiplication.
inline constexpr double kSoftcapFlops = 3;
inline constexpr double kF32Bytes = 4;

/// Bytes of `rows` rows of each of `values`, without those that are absent.
inline double rowBytes(double rows, std::initializer_list<Value> values) {
  double bytes = 0;
  for (Value value : values)
    if (value)
      bytes += rows * double(columns(value)) * kF32Bytes;
  return bytes;
}

/// Bytes of a weight; 0 for one that is absent.
inline double bytesOf(Value weight) {
  return weight
             ? double(getTensorBytes(cast<RankedTensorType>(weight.getType())))
             : 0;
}

/// The cached rows that the tokens of a step see.
struct Seen {
  double rows; ///< Rows that any token sees, summed over sequences.
  /// Pairs of a token t and a row that it sees: the sum of C + t + 1.
  double pairs;

  /// With `window` > 0 a token sees at most the last `window` rows.
  Seen(Operation *op, const Execution &execution, int64_t window = 0)
      : window(window) {
    double sequences = double(sequencesOf(op, execution.tokens));
    double each = double(execution.tokens) / sequences,
           before = double(execution.cached);
    // The first tokens see everything, the others a full window.
    double most = window ? double(window) : before + each;
    double first = std::clamp(most - before, 0.0, each);
    rows = sequences * std::min(before + each, most - 1 + each);
    pairs = sequences *
            (first * before + first * (first + 1) / 2 + (each - first) * most);
  }

  /// Adds to `work` that attention reads the rows of `kv`, each once.
  void read(KvType kv, InstructionWork &work) const {
    work.kvBytes = rows * double(kv.getRowBytes());
    work.kvType = kv.getElement();
    work.window = window;
  }

private:
  int64_t window;
};

/// Returns the most positions that a token sees with `chosen`: numbers of
/// blocks of `pool` entries of `ratio` positions, behind the last of which it
/// sees all.
inline int64_t mostChosen(Value chosen, int64_t pool, int64_t ratio = 1) {
  return ((columns(chosen) + 1) * pool - 1) * ratio;
}

/// Returns the work of an op that only has arithmetic and activations, no
/// weights and no cache.
inline InstructionWork moving(double ops, double activationBytes) {
  InstructionWork work;
  work.ops = ops;
  work.activationBytes = activationBytes;
  return work;
}

/// Returns the product of `matrices` matrices of `weight` with `rows` rows of
/// activations each.
inline Product product(Value weight, double rows, double matrices = 1) {
  return {weight, matrices, rows};
}

/// Adds the work of adding `bias`, if it is present, to `rows` rows. `vectors`
/// different biases are read.
inline void addBias(InstructionWork &work, Value bias, double rows,
                    double vectors = 1) {
  if (!bias)
    return;
  work.ops += rows * double(columns(bias));
  work.weightBytes += vectors * double(columns(bias)) * kF32Bytes;
}

/// Adds `residual`, if there is one, to the op's `result`: the last instruction
/// does so if the result overwrites the residual, else an Add.
void addResidual(Instructions &list, Value result, Value residual,
                 bool overwrites, double tokens);

/// Replaces `gate` by activation(gate) * up, or with a `limit` other than 0 by
/// the clamped SwiGLU of the two, or with a `softLimit` too by their SiTU.
void addActivation(Instructions &list, Temporary gate, Temporary up,
                   Activation activation, const APFloat &limit,
                   const APFloat &softLimit, bool clampsActivated,
                   const InstructionWork &work);

/// The work of a gated FFN with `rows` rows of `inner` columns, spread
/// evenly over `matrices` matrices of each weight. A fused kernel only writes
/// and reads the product of gate and up; otherwise both factors are written and
/// read, too.
struct GatedWork {
  InstructionWork gateUp; ///< If fused; otherwise `gate`, `up` and `mul`.
  InstructionWork gate, up, mul;
  InstructionWork down;

  template <typename Op>
  GatedWork(Op op, double rows, double matrices, double inner) {
    double each = rows / matrices, bytes = rows * inner * kF32Bytes;
    double mulOps = rows * inner * kActivationFlops;
    Product gateProduct = product(op.getGate(), each, matrices);
    Product upProduct = product(op.getUp(), each, matrices);
    gateUp = moving(mulOps, bytes);
    gateUp.products = {gateProduct, upProduct};
    addBias(gateUp, op.getGateBias(), rows, matrices);
    addBias(gateUp, op.getUpBias(), rows, matrices);
    gate = up = moving(0, bytes);
    gate.products = {gateProduct};
    addBias(gate, op.getGateBias(), rows, matrices);
    up.products = {upProduct};
    addBias(up, op.getUpBias(), rows, matrices);
    mul = moving(mulOps, 3 * bytes);
    down = moving(0, bytes);
    down.products = {product(op.getDown(), each, matrices)};
    addBias(down, op.getDownBias(), rows, matrices);
  }
};

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_MOEWORK_H
