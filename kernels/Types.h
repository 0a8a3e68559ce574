//===- Types.h - Basic types of kernel arguments ----------------*- C++ -*-===//
//
// Steps, workers, and views of weights and caches: all that gemms and the code
// around kernels need. kernels/Abi.h defines each instruction's arguments from
// these. Files that need no instruction's arguments include this header, so
// that a new instruction does not recompile every gemm.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_TYPES_H
#define MOE_KERNELS_TYPES_H

#include "kernels/quant/Format.h"

#include <cstddef>
#include <cstdint>

namespace moek {

/// Rows of a step that belong to one sequence, at consecutive positions.
struct SequenceRows {
  int32_t begin, count; ///< Range of the step's rows.
  /// Position of row `begin`; all earlier positions are cached.
  int32_t position;
  /// The pages of the sequence's cache: position p is row pages[p / kKvPage] *
  /// kKvPage + p % kKvPage of every layer's cache. Null: position p is row p.
  const int32_t *pages;
  /// The sequence's row in every layer's state (kernels/KvCache.h).
  int32_t state = 0;
};

/// The inputs that change between two runs of the same instruction list.
struct Step {
  int32_t tokens; ///< Number of tokens T, at least 1.
  /// Position of the first token, if all tokens belong to one sequence.
  int32_t position;
  /// [sequenceCount] The sequences whose rows, in this order, make up the step.
  /// Null: one sequence, whose position p is row p of the cache.
  const SequenceRows *sequences = nullptr;
  int32_t sequenceCount = 1;

  [[gnu::always_inline]] SequenceRows sequence(int32_t i) const {
    return sequences ? sequences[i]
                     : SequenceRows{0, tokens, position, nullptr};
  }
};

/// Identifies one thread among those that share the work of an instruction.
struct Worker {
  int32_t index;
  int32_t count;
  /// Private to this thread, 64-byte aligned, as large as the plan's kernels
  /// need (kernels/Scratch.h).
  std::byte *scratch;
  /// The workers nodeBegin ... nodeEnd - 1 read memory of the same NUMA node as
  /// this one; nodeEnd 0 means all workers.
  int32_t nodeBegin = 0, nodeEnd = 0;
  /// Worker w's counter for this instruction is tickets[w * ticketStride], zero
  /// before the first worker begins. Workers that finish early take over the
  /// rest of w's share through it (see kernels/cpu/Share.h). Null: every worker
  /// does all of its own share.
  uint32_t *tickets = nullptr;
  int64_t ticketStride = 0;
};

struct Range {
  int64_t begin, end;
};

/// The contiguous range of `count` items that `worker` processes, in whole
/// multiples of `grain` (the last range may be short). Ranges differ by at most
/// one grain. Always inlined, because a copy compiled for one ISA must not be
/// linked into the code of others.
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
  A8K = 3, ///< A8 in which more columns share a scale.
};

/// A weight in memory: `outer` matrices (experts or heads; otherwise 1) of
/// `rows` x `cols`. Each row is a whole number of the format's blocks.
struct WeightView {
  const uint8_t *data;
  int64_t outer, rows, cols;
  int64_t outerStride, rowStride; ///< Distances in bytes.
  Format format;
};

enum class KvType : uint8_t { F32 = 0, F16 = 1, BF16 = 2, Q8_0 = 3 };
inline constexpr unsigned kKvTypeCount = 4;

/// One layer's cache: `capacity` rows of `width` elements. kernels/KvCache.h
/// describes the layout.
struct KvView {
  uint8_t *data;
  int64_t width, capacity;
  /// Distance in bytes; for Q8_0 a tile's bytes divided by its rows.
  int64_t rowStride;
  KvType type;
};

/// A gemm, the only kind of kernel that knows weight formats. For r < rows and
/// t < tokens it computes
///   out[t * outStride + r] = sum over c < cols of w[r][c] * act[t][c].
/// `w` is the first of `rows` rows `wStride` bytes apart; act[t] points at a
/// row in the encoding that the kernel is registered with. Single-threaded.
using GemmFn = void (*)(const uint8_t *w, int64_t wStride, int64_t rows,
                        const uint8_t *const *act, int64_t tokens, int64_t cols,
                        float *out, int64_t outStride);

/// Values in Gemms.def: a maximum that allows any number of rows, and a `panel`
/// that no number of rows reaches.
inline constexpr int32_t kAnyTokens = INT32_MAX;
inline constexpr int32_t kNever = INT32_MAX;

/// The most inputs that the convolution of ShortConv sees, including the
/// token's own.
inline constexpr int32_t kMaxTaps = 8;

/// How an FFN combines its gate g and up projection u.
enum class Activation : int32_t {
  Silu = 0, ///< g * sigmoid(g) * u
  Gelu = 1, ///< g * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))) / 2 * u
  /// g * sigmoid(1.702 g) * (u + 1), with g clamped to at most 7 and u to -7
  /// ... 7 (gpt-oss).
  ClampedSwiglu = 2,
  Relu = 3,    ///< max(g, 0) * u
  GeluErf = 4, ///< g * (1 + erf(g / sqrt(2))) / 2 * u
};
inline constexpr int32_t kActivationCount = 5;

/// The factor that a gate g is.
enum class Gate : int32_t {
  Sigmoid = 0,  ///< 1 / (1 + e^-g)
  Softplus = 1, ///< ln(1 + e^g)
  Identity = 2, ///< g
};
inline constexpr int32_t kGateCount = 3;

enum class Scoring : int32_t { Softmax = 1, Sigmoid = 2, SoftmaxTopK = 3 };

} // namespace moek

#endif // MOE_KERNELS_TYPES_H
