//===- OpsStates.cpp - Benchmarks of kernels with states ------------------===//
//
// Gated delta nets of Qwen3-Next-80B-A3B and compressors of DeepSeek-V4-Flash.
// `ops` is defined as in OpsDense.cpp; bytes are all bytes read and written,
// including states. At position 0 a state is not read.
//
//===----------------------------------------------------------------------===//

#include "kernels/Entries.h"
#include "kernels/Scratch.h"
#include "test/bench/OpWork.h"

namespace moek::bench {

namespace {

constexpr int32_t kKeyHeads = 16, kValueHeads = 32, kHeadSize = 128, kTaps = 4;
/// Columns of queries, keys and values together.
constexpr int64_t kMixed = (2 * kKeyHeads + kValueHeads) * kHeadSize;

/// Returns the state of one sequence.
KvView stateOf(Arena &arena, int64_t width) {
  return {arena.make<uint8_t>(width * 4), width, 1, width * 4, KvType::F32};
}

/// Returns the bytes that a step reads and writes of a state with `floats`
/// elements.
double stateBytes(int64_t floats, Step step) {
  return double(floats) * (step.position > 0 ? 8 : 4);
}

Work compress(Arena &arena, Step step, int32_t ratio, bool overlap) {
  CompressArgs a{};
  a.cols = 512, a.ratio = ratio, a.overlap = overlap;
  int64_t width = overlap ? 2 * a.cols : a.cols;
  a.kvStride = a.gateStride = width, a.outStride = a.cols;
  a.kv = arena.floats(step.tokens * width);
  a.gate = arena.floats(step.tokens * width);
  a.ape = arena.floats(ratio * width);
  a.out = arena.make<float>(step.tokens * a.cols);
  a.state = stateOf(arena, compressStateWidth(a.cols, overlap));
  double values = double(step.tokens) * double(width);
  int32_t end = step.position + step.tokens;
  double entries = double(end / ratio - step.position / ratio) * double(a.cols);
  // A sum for the gate, the maximum, two differences and exponentials, and
  // three each for weight and sum; a quotient per entry, which with overlap is
  // the sum of two parts.
  return {keep(a), 0, 12 * values + (overlap ? 12 : 1) * entries,
          8 * values + 4 * entries +
              4.0 * std::min(step.tokens, ratio) * double(width) +
              stateBytes((overlap ? 9 : 3) * a.cols, step)};
}

} // namespace

/// Regroups queries and gates of attention layers: [query | gate] per head.
Work regroup(Arena &arena, Isa, Step step) {
  RegroupArgs a{};
  a.groups = 16, a.width = 512, a.first = a.second = 256;
  a.xStride = a.outStride = a.groups * a.width;
  a.x = arena.floats(step.tokens * a.xStride);
  a.out = arena.make<float>(step.tokens * a.outStride);
  return {keep(a), 0, 0, 8.0 * step.tokens * double(a.xStride)};
}

Work shortConv(Arena &arena, Isa, Step step) {
  ShortConvArgs a{};
  a.cols = a.xStride = a.outStride = kMixed, a.taps = kTaps;
  a.x = arena.floats(step.tokens * kMixed);
  a.weight = arena.floats(kMixed * kTaps);
  a.out = arena.make<float>(step.tokens * kMixed);
  a.state = stateOf(arena, (kTaps - 1) * kMixed);
  // Products and their sum; SiLU: exponential, sum, quotient.
  double values = double(step.tokens) * kMixed;
  return {keep(a), 0, (2 * kTaps - 1 + 3) * values,
          8 * values + 4.0 * kTaps * kMixed +
              stateBytes((kTaps - 1) * kMixed, step)};
}

Work deltaGates(Arena &arena, Isa, Step step) {
  DeltaGatesArgs a{};
  a.heads = kValueHeads;
  a.beta = arena.floats(step.tokens * a.heads);
  a.alpha = arena.floats(step.tokens * a.heads);
  a.dt = arena.floats(a.heads);
  float *rates = arena.floats(a.heads);
  for (int64_t h = 0; h < a.heads; ++h)
    rates[h] = -std::abs(rates[h]);
  a.a = rates;
  a.out = arena.make<float>(step.tokens * 2 * a.heads);
  // Sigmoid: exponential, sum, quotient. Decay: sum, maximum, exponential, sum,
  // logarithm, sum, product, exponential.
  double values = double(step.tokens) * kValueHeads;
  return {keep(a), 0, 11 * values, 16 * values + 8.0 * kValueHeads};
}

Work deltaRule(Arena &arena, Isa, Step step) {
  DeltaRuleArgs a{};
  a.keyHeads = kKeyHeads, a.heads = kValueHeads, a.eps = 1e-6f;
  a.key = a.value = kHeadSize;
  a.xStride = kMixed, a.outStride = kValueHeads * kHeadSize;
  a.x = arena.floats(step.tokens * a.xStride);
  a.out = arena.make<float>(step.tokens * a.outStride);
  // Strengths and decays are between 0 and 1.
  int64_t gates = int64_t(step.tokens) * 2 * kValueHeads;
  auto *gate = arena.make<float>(gates);
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(0.5f, 1);
  std::generate_n(gate, gates, [&] { return uniform(random); });
  a.gates = gate;
  a.begin = deltaStateBegin(kTaps, kMixed);
  a.state = stateOf(
      arena, deltaStateWidth(kTaps, kMixed, kValueHeads, kHeadSize, kHeadSize));
  // Per element of S: a product and a sum each for reading, writing and the
  // result, and the decay. Norms are a hundredth of that.
  int64_t elements = int64_t(kValueHeads) * kHeadSize * kHeadSize;
  return {keep(a), size_t(deltaRuleScratchBytes(kHeadSize, kHeadSize)),
          7.0 * step.tokens * double(elements),
          stateBytes(elements, step) +
              4.0 * step.tokens * double(a.xStride + a.outStride) +
              4.0 * double(gates)};
}

Work compressBy4(Arena &arena, Isa, Step step) {
  return compress(arena, step, 4, true);
}

Work compressBy128(Arena &arena, Isa, Step step) {
  return compress(arena, step, 128, false);
}

} // namespace moek::bench
