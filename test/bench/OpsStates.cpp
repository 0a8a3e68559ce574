//===- OpsStates.cpp - Drivers of layers with states ----------------------===//
//
// Gated delta nets of Qwen3-Next-80B-A3B and compressors of DeepSeek-V4-Flash.
// `ops` as in OpsDense.cpp; bytes are all that is read and written, states too.
// A state is read behind position 0 only.
//
//===----------------------------------------------------------------------===//

#include "kernels/Scratch.h"
#include "kernels/SparseArgs.h"
#include "test/bench/OpWork.h"

namespace moek::bench {

namespace {

constexpr int32_t kKeyHeads = 16, kValueHeads = 32, kHeadSize = 128, kTaps = 4;
/// Queries, keys and values.
constexpr int64_t kMixed = (2 * kKeyHeads + kValueHeads) * kHeadSize;

/// One sequence's.
KvView stateOf(Arena &arena, int64_t width) {
  return {arena.make<uint8_t>(width * 4), width, 1, width * 4, KvType::F32};
}

/// Bytes of `floats` of a state that a step reads and writes.
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
  // A gate's sum, the maximum, two differences and exponentials, three each for
  // weight and sum; a quotient of each entry, which with overlap is added up of
  // two.
  return {keep(a), 0, 12 * values + (overlap ? 12 : 1) * entries,
          8 * values + 4 * entries +
              4.0 * std::min(step.tokens, ratio) * double(width) +
              stateBytes((overlap ? 9 : 3) * a.cols, step)};
}

} // namespace

/// Queries and gates of the layers with attention: [query | gate] per head.
Work regroup(Arena &arena, Isa, Step step) {
  RegroupArgs a{};
  a.groups = 16, a.width = 512, a.parts[0] = a.parts[1] = 256;
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
  // Strengths and decays are from 0 to 1.
  int64_t gates = int64_t(step.tokens) * 2 * kValueHeads;
  auto *gate = arena.make<float>(gates);
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(0.5f, 1);
  std::generate_n(gate, gates, [&] { return uniform(random); });
  a.gates = gate;
  a.begin = deltaStateBegin(kTaps, kMixed);
  a.state = stateOf(
      arena, deltaStateWidth(kTaps, kMixed, kValueHeads, kHeadSize, kHeadSize));
  // Of each element of S: a product and a sum of what is found, of what is
  // written and of the answer, and the decay. Norms are a hundredth of that.
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
