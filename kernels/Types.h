//===- Types.h - What arguments of kernels are made of ----------*- C++ -*-===//
//
// A step, a worker, views of weights and caches: all that a gemm and code
// around kernels knows. kernels/Abi.h has each instruction's arguments, made of
// these; who needs no instruction's includes this, so that a new one does not
// compile every gemm again.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_TYPES_H
#define MOE_KERNELS_TYPES_H

#include "kernels/quant/Format.h"

#include <cstddef>
#include <cstdint>

namespace moek {

/// Rows of a step that continue one sequence, at consecutive positions.
struct SequenceRows {
  int32_t begin, count; ///< Which of the step's rows.
  int32_t position; ///< Of row `begin`; the sequence's before it are cached.
  /// Where its cache lies: position p is row pages[p / kKvPage] * kKvPage +
  /// p % kKvPage of every layer's cache. Null where it is row p.
  const int32_t *pages;
  /// Its row of every layer's state (kernels/KvCache.h).
  int32_t state = 0;
};

/// What changes between two runs of the same instruction list.
struct Step {
  int32_t tokens;   ///< T, at least 1.
  int32_t position; ///< Of the first token, where all are of one sequence.
  /// [sequenceCount] whose rows, in this order, are the step's. Null for one
  /// sequence with the first pages of the cache.
  const SequenceRows *sequences = nullptr;
  int32_t sequenceCount = 1;

  [[gnu::always_inline]] SequenceRows sequence(int32_t i) const {
    return sequences ? sequences[i]
                     : SequenceRows{0, tokens, position, nullptr};
  }
};

/// Which share of an instruction this thread does.
struct Worker {
  int32_t index;
  int32_t count;
  /// Private, 64-byte aligned, as large as the kernels of the plan need (see
  /// kernels/Scratch.h).
  std::byte *scratch;
  /// The workers nodeBegin ... nodeEnd - 1 read memory of the same NUMA node as
  /// this one; nodeEnd 0 stands for all workers.
  int32_t nodeBegin = 0, nodeEnd = 0;
  /// Worker w's counter for this instruction is tickets[w * ticketStride], zero
  /// before the first worker begins: what is left of w's share for whoever has
  /// time (see kernels/cpu/Share.h). Null: every worker does all of its own.
  uint32_t *tickets = nullptr;
  int64_t ticketStride = 0;
};

struct Range {
  int64_t begin, end;
};

/// The contiguous part of `count` items that `worker` does, in whole multiples
/// of `grain` (the last may be short). Parts differ by at most one grain.
/// Always inlined: a copy compiled for one ISA must not serve the others.
[[gnu::always_inline]] inline Range shareOf(int64_t count, int64_t grain,
                                            const Worker &worker) {
  int64_t grains = (count + grain - 1) / grain;
  int64_t begin = grains * worker.index / worker.count * grain;
  int64_t end = grains * (worker.index + 1) / worker.count * grain;
  return {begin < count ? begin : count, end < count ? end : count};
}

/// How the elements of a plan buffer are stored.
enum class Encoding : uint8_t {
  F32 = 0,
  I32 = 1,
  A8 = 2,  ///< 8-bit activations; see kernels/Activation.h.
  A8K = 3, ///< The same with fewer different scales.
};

/// A weight in memory: `outer` matrices (experts, heads; else 1) of `rows` x
/// `cols`, each row a whole number of the format's blocks.
struct WeightView {
  const uint8_t *data;
  int64_t outer, rows, cols;
  int64_t outerStride, rowStride; ///< Bytes.
  Format format;
};

enum class KvType : uint8_t { F32 = 0, F16 = 1, BF16 = 2, Q8_0 = 3 };
inline constexpr unsigned kKvTypeCount = 4;

/// One layer's cache: `capacity` rows of `width` elements; kernels/KvCache.h
/// has the layout.
struct KvView {
  uint8_t *data;
  int64_t width, capacity;
  int64_t rowStride; ///< Bytes; of Q8_0 a tile's stride divided by its rows.
  KvType type;
};

/// The one kernel that knows a weight format: for r < rows, t < tokens
///   out[t * outStride + r] = sum over c < cols of w[r][c] * act[t][c].
/// `w` is the first of `rows` rows `wStride` bytes apart; act[t] points at a
/// row in the encoding that the kernel is registered with. Single-threaded.
using GemmFn = void (*)(const uint8_t *w, int64_t wStride, int64_t rows,
                        const uint8_t *const *act, int64_t tokens, int64_t cols,
                        float *out, int64_t outStride);

/// In Gemms.def: any number of rows, and from no number on.
inline constexpr int32_t kAnyTokens = INT32_MAX;
inline constexpr int32_t kNever = INT32_MAX;

/// Inputs that a convolution of ShortConv sees at most, the token's own among
/// them.
inline constexpr int32_t kMostTaps = 8;

/// What an FFN makes of gate g and up u.
enum class Activation : int32_t {
  Silu = 0, ///< g * sigmoid(g) * u
  Gelu = 1, ///< g * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))) / 2 * u
  /// g * sigmoid(1.702 g) * (u + 1), where g is at most 7 and u within -7 and
  /// 7: gpt-oss.
  ClampedSwiglu = 2,
};
inline constexpr int32_t kActivationCount = 3;

enum class Scoring : int32_t { Softmax = 1, Sigmoid = 2, SoftmaxTopK = 3 };

} // namespace moek

#endif // MOE_KERNELS_TYPES_H
