//===- OpsStreams.cpp - Benchmarks of residual stream kernels -------------===//
//
// DeepSeek-V4-Flash's shapes: hyper-connections, and the experts between them.
// `ops` is defined as in OpsDense.cpp; bytes are all bytes read and written.
//
//===----------------------------------------------------------------------===//

#include "kernels/Entries.h"
#include "kernels/Ngrams.h"
#include "kernels/Scratch.h"
#include "test/bench/OpWork.h"

namespace moek::bench {

namespace {

constexpr int32_t kStreams = 4, kIterations = 20;
/// Weights for reading, for writing, and from stream to stream.
constexpr int32_t kMixCols = kStreams * (2 + kStreams);
constexpr int32_t kStreamCols = 4096;
constexpr int32_t kV4Experts = 256, kV4TopK = 6, kV4ExpertSize = 2048;
constexpr int32_t kV4Vocab = 129280;
constexpr int32_t kK3Cols = 7168, kK3Blocks = 8;

} // namespace

Work hyperWeights(Arena &arena, Isa, Step step) {
  HyperWeightsArgs a{};
  a.cols = a.xStride = a.outStride = kMixCols;
  a.streams = kStreams, a.iterations = kIterations, a.eps = 1e-6f;
  a.x = arena.floats(step.tokens * kMixCols);
  a.scale = arena.floats(3), a.base = arena.floats(kMixCols);
  a.out = arena.make<float>(step.tokens * kMixCols);
  // A product and a sum each; sigmoid and one more operation for weights of
  // reading and writing; maximum, difference, exponential, sum, quotient and
  // sum for the matrix, then a sum and a quotient for each of its
  // normalisations.
  double matrix = kStreams * kStreams;
  double ops = 2 * kMixCols + 2 * kStreams * 4 + 6 * matrix +
               (2 * kIterations - 1) * 2 * matrix;
  return {keep(a), 0, ops * step.tokens,
          8.0 * step.tokens * kMixCols + 4.0 * (kMixCols + 3)};
}

Work hyperCollapse(Arena &arena, Isa, Step step) {
  HyperCollapseArgs a{};
  a.streams = kStreams, a.cols = a.outStride = kStreamCols;
  a.xStride = kStreams * kStreamCols, a.weightsStride = kMixCols;
  a.x = arena.floats(step.tokens * a.xStride);
  a.weights = arena.floats(step.tokens * a.weightsStride);
  a.out = arena.make<float>(step.tokens * a.outStride);
  double values = double(step.tokens) * kStreamCols;
  return {keep(a), 0, 2 * kStreams * values,
          4 * (kStreams + 1) * values + 4.0 * step.tokens * kStreams};
}

Work hyperSpread(Arena &arena, Isa, Step step) {
  HyperSpreadArgs a{};
  a.streams = kStreams, a.cols = a.yStride = kStreamCols;
  a.xStride = a.outStride = kStreams * kStreamCols;
  a.weightsStride = kMixCols;
  a.y = arena.floats(step.tokens * a.yStride);
  a.x = arena.floats(step.tokens * a.xStride);
  a.weights = arena.floats(step.tokens * a.weightsStride);
  a.out = arena.make<float>(step.tokens * a.outStride);
  double values = double(step.tokens) * kStreamCols;
  return {keep(a), 0, kStreams * (1 + 2 * kStreams) * values,
          4 * (1 + 2 * kStreams) * values +
              4.0 * step.tokens * (kMixCols - kStreams)};
}

/// Kimi K3's residual stream with all its earlier states.
Work residualMix(Arena &arena, Isa, Step step) {
  ResidualMixArgs a{};
  a.cols = a.xStride = a.outStride = kK3Cols, a.count = kK3Blocks;
  a.stackStride = kK3Blocks * kK3Cols, a.eps = 1e-5f;
  a.x = arena.floats(step.tokens * a.xStride);
  a.stack = arena.floats(step.tokens * a.stackStride);
  a.weight = arena.floats(a.cols);
  a.out = arena.make<float>(step.tokens * a.outStride);
  // Products and sums of two scalar products and of the result.
  double values = double(step.tokens) * kK3Cols;
  return {keep(a), 0, 6 * (kK3Blocks + 1) * values,
          4 * (kK3Blocks + 2) * values + 4.0 * kK3Cols};
}

Work concat(Arena &arena, Isa, Step step) {
  ConcatArgs a{};
  a.first = (kK3Blocks - 1) * kK3Cols, a.second = kK3Cols;
  a.x = arena.floats(step.tokens * a.first);
  a.y = arena.floats(step.tokens * a.second);
  a.out = arena.make<float>(step.tokens * (a.first + a.second));
  return {keep(a), 0, 0, 8.0 * double(step.tokens) * kK3Blocks * kK3Cols};
}

/// Values of n-grams.
Work gateStreams(Arena &arena, Isa, Step step) {
  GateStreamsArgs a{};
  a.streams = kStreams, a.cols = kStreamCols;
  const int64_t all = step.tokens * kStreams * kStreamCols;
  a.q = arena.floats(all), a.k = arena.floats(all);
  a.value = arena.floats(step.tokens * kStreamCols);
  a.out = arena.make<float>(all);
  return {keep(a), 0, 3 * double(all),
          12.0 * double(all) + 4.0 * double(step.tokens * kStreamCols)};
}

/// The table is in memory here; reading rows from a file takes the disk's time.
Work ngramEmbed(Arena &arena, Isa, Step step) {
  constexpr int64_t kRows = 1 << 20, kCols = 160, kContext = 1024;
  constexpr int32_t kSize = 3, kHeads = 8;
  NgramEmbedArgs a{};
  a.table = arena.weights(Format::Q8_0, 1, kRows, kCols);
  auto *tokens = arena.make<int32_t>(step.tokens);
  std::mt19937 random(1);
  std::generate_n(tokens, step.tokens, [&] { return int32_t(random() >> 16); });
  a.tokens = tokens, a.size = kSize, a.heads = kHeads;
  auto *hash = arena.make<float>(ngramNumbers(kSize, kHeads) * kWideDigits);
  for (int64_t i = 0; i < ngramNumbers(kSize, kHeads); ++i)
    // Multipliers with digits of any size; moduli of 2^16 + i; offsets of 0.
    for (int64_t digit = 0; digit < kWideDigits; ++digit)
      hash[i * kWideDigits + digit] = i < kSize ? float(random() & 0xffff)
                                      : i < kSize + ngramColumns(kSize, kHeads)
                                          ? float(digit == 0 ? i : digit == 1)
                                          : 0.0f;
  a.hash = hash;
  auto *history = arena.make<float>(kContext);
  a.history = {reinterpret_cast<uint8_t *>(history), 1, kContext, 4,
               KvType::F32};
  a.outStride = ngramColumns(kSize, kHeads) * kCols;
  a.out = arena.make<float>(step.tokens * a.outStride);
  return {
      keep(a), 0, double(step.tokens * a.outStride),
      double(step.tokens * ngramColumns(kSize, kHeads) * a.table.rowStride)};
}

/// The activation of the routed experts.
Work clampedMul(Arena &arena, Isa, Step step) {
  ClampedMulArgs a{};
  a.cols = kV4ExpertSize, a.rowsPerToken = kV4TopK, a.limit = 10;
  int64_t count = int64_t(step.tokens) * kV4TopK * kV4ExpertSize;
  a.gate = arena.floats(count), a.up = arena.floats(count);
  a.out = arena.make<float>(count);
  // Operations of ActivationMul, and three comparisons.
  return {keep(a), 0, 7.0 * double(count), 12.0 * double(count)};
}

Work hashRouter(Arena &arena, Isa, Step step) {
  HashRouterArgs a{};
  a.experts = a.stride = kV4Experts, a.topK = kV4TopK;
  a.scoring = kSqrtSoftplus, a.normalize = true, a.scale = 1.5f;
  a.logits = arena.floats(step.tokens * kV4Experts);
  a.ids = arena.make<int32_t>(step.tokens * kV4TopK);
  a.weights = arena.make<float>(step.tokens * kV4TopK);
  auto *tokens = arena.make<int32_t>(step.tokens);
  std::mt19937 random(1);
  std::generate_n(tokens, step.tokens,
                  [&] { return int32_t(random() % kV4Vocab); });
  // The experts of a row are all different.
  auto *table = arena.make<int32_t>(kV4Vocab * kV4TopK);
  for (int32_t i = 0; i < kV4Vocab * kV4TopK; ++i)
    table[i] = i % kV4Experts;
  a.tokens = tokens, a.table = table;
  // Maximum, exponential, logarithm, sum and root per expert; a sum and a
  // product per choice.
  double values = double(step.tokens) * kV4Experts;
  double choices = double(step.tokens) * kV4TopK;
  return {keep(a), size_t(routerScratchBytes(kV4Experts)),
          5 * values + 2 * choices,
          4 * values + 12 * choices + 4.0 * step.tokens};
}

} // namespace moek::bench
