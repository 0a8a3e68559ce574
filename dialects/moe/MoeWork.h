//===- MoeWork.h - What ops' costs are counted with -------------*- C++ -*-===//
//
// For getWork(); see MoeCost.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MOE_MOEWORK_H
#define MOE_DIALECTS_MOE_MOEWORK_H

#include "dialects/moe/MoeVerify.h"

#include <algorithm>

namespace mlir::moe {

/// Of a score: subtract the maximum, exp, add to the sum, scale.
inline constexpr double kSoftmaxFlops = 4;
inline constexpr double kF32Bytes = 4;

/// Bytes of `rows` rows of each of `values`, without those that are absent.
inline double rowBytes(double rows, std::initializer_list<Value> values) {
  double bytes = 0;
  for (Value value : values)
    if (value)
      bytes += rows * double(columns(value)) * kF32Bytes;
  return bytes;
}

/// What the tokens of a step see of the cache.
struct Seen {
  double rows;  ///< Of all sequences.
  double pairs; ///< Of a token with a position: sum of C + t + 1.

  /// `window` > 0: of the last so many rows.
  Seen(Operation *op, int64_t tokens, int64_t context, int64_t window = 0)
      : window(window) {
    double sequences = double(sequencesOf(op, tokens));
    double each = double(tokens) / sequences, before = double(context);
    // The first tokens see everything, the others a full window.
    double most = window ? double(window) : before + each;
    double first = std::clamp(most - before, 0.0, each);
    rows = sequences * std::min(before + each, most - 1 + each);
    pairs = sequences *
            (first * before + first * (first + 1) / 2 + (each - first) * most);
  }

  /// Adds to `work` that attention reads the rows of `kv`, each once.
  void read(KvType kv, StepWork &work) const {
    work.kvBytes = rows * double(kv.getRowBytes());
    work.kvType = kv.getElement();
    work.window = window;
  }

private:
  int64_t window;
};

/// Arithmetic and activations, without weights or a cache.
inline StepWork moving(double ops, double activationBytes) {
  StepWork work;
  work.ops = ops;
  work.activationBytes = activationBytes;
  return work;
}

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_MOEWORK_H
