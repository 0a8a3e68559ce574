//===- OpsStates.cpp - Benchmarks of kernels with states ------------------===//
//
// Gated delta nets of Qwen3-Next-80B-A3B, those with decays of channels of
// Kimi-Linear-48B-A3B, Mamba 2 of Nemotron 3 Nano, and compressors of
// DeepSeek-V4-Flash.
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
  a.cols = a.xStride = a.outStride = kMixed, a.taps = kTaps, a.silu = true;
  a.dilation = 1;
  a.x = arena.floats(step.tokens * kMixed);
  a.weight = arena.floats(kMixed * kTaps);
  a.out = arena.make<float>(step.tokens * kMixed);
  a.state = stateOf(arena, (kTaps - 1) * kMixed);
  // Products and their sum; for SiLU: exponential, sum, quotient.
  double values = double(step.tokens) * kMixed;
  return {keep(a), 0, (2 * kTaps - 1 + 3) * values,
          8 * values + 4.0 * kTaps * kMixed +
              stateBytes((kTaps - 1) * kMixed, step)};
}

/// The convolution of LFM2 8B-A1B's layers.
Work shortConvPlain(Arena &arena, Isa, Step step) {
  constexpr int64_t kCols = 2048;
  constexpr int32_t kFew = 3;
  ShortConvArgs a{};
  a.cols = a.xStride = a.outStride = kCols, a.taps = kFew;
  a.dilation = 1;
  a.x = arena.floats(step.tokens * kCols);
  a.weight = arena.floats(kCols * kFew);
  a.out = arena.make<float>(step.tokens * kCols);
  a.state = stateOf(arena, (kFew - 1) * kCols);
  double values = double(step.tokens) * kCols;
  return {keep(a), 0, (2 * kFew - 1) * values,
          8 * values + 4.0 * kFew * kCols +
              stateBytes((kFew - 1) * kCols, step)};
}

namespace {
/// `perHead`: the decays of each head.
Work gates(Arena &arena, Step step, int64_t heads, int64_t perHead) {
  DeltaGatesArgs a{};
  a.heads = heads, a.decays = heads * perHead;
  a.beta = arena.floats(step.tokens * heads);
  a.alpha = arena.floats(step.tokens * a.decays);
  a.dt = arena.floats(a.decays);
  float *rates = arena.floats(heads);
  for (int64_t h = 0; h < heads; ++h)
    rates[h] = -std::abs(rates[h]);
  a.a = rates;
  a.out = arena.make<float>(step.tokens * (heads + a.decays));
  // Sigmoid: exponential, sum, quotient. Decay: sum, maximum, exponential, sum,
  // logarithm, sum, product, exponential.
  double strengths = double(step.tokens) * double(heads);
  double decays = strengths * double(perHead);
  return {keep(a), 0, 3 * strengths + 8 * decays,
          8 * (strengths + decays) + 4.0 * double(heads + a.decays)};
}

struct RuleShape {
  int32_t keyHeads, heads, key, value;
  bool channels = false, sums = false;
};

Work rule(Arena &arena, Step step, const RuleShape &s) {
  DeltaRuleArgs a{};
  a.keyHeads = s.keyHeads, a.heads = s.heads, a.eps = 1e-6f;
  a.key = s.key, a.value = s.value, a.channels = s.channels, a.sums = s.sums;
  a.outStride = int64_t(s.heads) * s.value;
  a.xStride = 2 * int64_t(s.keyHeads) * s.key + a.outStride;
  a.gatesStride = s.heads * (1 + (s.channels ? s.key : 1));
  a.x = arena.floats(step.tokens * a.xStride);
  a.out = arena.make<float>(step.tokens * a.outStride);
  if (s.sums)
    a.skip = arena.floats(s.heads);
  // Strengths and decays are between 0 and 1.
  int64_t gates = step.tokens * a.gatesStride;
  auto *gate = arena.make<float>(gates);
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(0.5f, 1);
  std::generate_n(gate, gates, [&] { return uniform(random); });
  a.gates = gate;
  a.begin = deltaStateBegin(kTaps, a.xStride);
  a.state = stateOf(arena,
                    deltaStateWidth(kTaps, a.xStride, s.heads, s.key, s.value));
  // Per element of S: a product and a sum each for reading, writing and the
  // result, and the decay. Norms are a hundredth of that. Sums do not read.
  int64_t elements = int64_t(s.heads) * s.key * s.value;
  return {keep(a), size_t(deltaRuleScratchBytes(s.key, s.value)),
          (s.sums ? 5.0 : 7.0) * step.tokens * double(elements),
          stateBytes(elements, step) +
              4.0 * step.tokens * double(a.xStride + a.outStride) +
              4.0 * double(gates)};
}
} // namespace

Work deltaGates(Arena &arena, Isa, Step step) {
  return gates(arena, step, kValueHeads, 1);
}

Work deltaGatesOfChannels(Arena &arena, Isa, Step step) {
  return gates(arena, step, kValueHeads, kHeadSize);
}

Work deltaRule(Arena &arena, Isa, Step step) {
  return rule(arena, step, {kKeyHeads, kValueHeads, kHeadSize, kHeadSize});
}

Work deltaRuleOfChannels(Arena &arena, Isa, Step step) {
  return rule(arena, step,
              {kValueHeads, kValueHeads, kHeadSize, kHeadSize, true});
}

Work deltaRuleOfSums(Arena &arena, Isa, Step step) {
  return rule(arena, step, {8, 64, 128, 64, false, true});
}

Work compressBy4(Arena &arena, Isa, Step step) {
  return compress(arena, step, 4, true);
}

Work compressBy128(Arena &arena, Isa, Step step) {
  return compress(arena, step, 128, false);
}

} // namespace moek::bench
