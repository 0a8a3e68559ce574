//===- bench_ops.cpp - Measures the speed of all other kernels ------------===//
//
// One worker runs each kernel in DeepSeek-V2-Lite's shapes (OpWork.h), or in
// those of a model that has the op: Qwen3-30B-A3B, Qwen3-Next-80B-A3B,
// DeepSeek-V3.2 or V4-Flash. Small weights stay in cache between calls; those
// of 64 experts and of the head do not fit.
//
// Names are kernel[/variant]/tokens[/position]. Counters: ops per second (a
// multiply and an add count as two); bytes_per_second of weights and cache rows
// or, for ops without either, of all bytes read and written.
//
//===----------------------------------------------------------------------===//

#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "kernels/Scratch.h"
#include "test/bench/OpWork.h"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdio>
#include <string>
#include <vector>

using namespace moek;
using namespace moek::bench;

namespace {

Work absorbQuery(Arena &arena, Isa, Step step) {
  AbsorbQueryArgs a{};
  a.heads = kHeads, a.nope = kNope, a.rope = kRope, a.latent = kLatent;
  a.qStride = kHeads * (kNope + kRope);
  a.outStride = kHeads * (kLatent + kRope);
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.floats(step.tokens * a.outStride);
  a.w = arena.weights(Format::Q4_K, kHeads, kNope, kLatent);
  double products = double(kHeads) * kNope * kLatent;
  return {keep(a), size_t(absorbQueryScratchBytes(kLatent)),
          2 * products * step.tokens, double(a.w.outer * a.w.outerStride)};
}

/// A weight [heads, rows, cols], and `tail` columns that are copied.
Work headLinear(Arena &arena, Isa isa, Step step, Format format, int64_t rows,
                int64_t cols, int32_t tail) {
  HeadLinearArgs a{};
  const GemmInfo &gemm = gemmFor(format, isa);
  a.gemm = resolveGemm(gemm.name), a.encoding = gemm.activation;
  a.tail = tail;
  a.xStride = kHeads * (cols + tail), a.outStride = kHeads * (rows + tail);
  a.x = arena.floats(step.tokens * a.xStride);
  a.out = arena.floats(step.tokens * a.outStride);
  a.w = arena.weights(format, kHeads, rows, cols);
  double products = double(kHeads) * double(rows * cols);
  return {keep(a), size_t(headLinearScratchBytes(cols)),
          2 * products * step.tokens, double(a.w.outer * a.w.outerStride)};
}

Work expandValue(Arena &arena, Isa isa, Step step) {
  return headLinear(arena, isa, step, Format::Q4_K, kValue, kLatent, 0);
}

/// Used by plans in place of AbsorbQuery if W_UK is transposed.
Work absorbTransposed(Arena &arena, Isa isa, Step step) {
  return headLinear(arena, isa, step, Format::Q8_0, kLatent, kNope, kRope);
}

/// Returns the (query, visible key) pairs of a step.
double pairs(Step step) {
  return step.tokens * (step.position + (step.tokens + 1) / 2.0);
}

template <KvType Type> Work latentAttention(Arena &arena, Isa, Step step) {
  LatentAttentionArgs a{};
  a.heads = kHeads, a.latent = kLatent, a.rope = kRope;
  a.qStride = kHeads * (kLatent + kRope), a.outStride = kHeads * kLatent;
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.floats(step.tokens * a.outStride);
  a.kv = cache(arena, step, Type);
  a.splits = 1;
  a.scale = 0.07f;
  return {keep(a), size_t(latentAttentionScratchBytes(kHeads, kLatent, kRope)),
          2 * pairs(step) * kHeads * (2 * kLatent + kRope),
          double(a.kv.capacity * a.kv.rowStride)};
}

/// Combines 32 KV splits of at least 128 rows.
Work combineSplits(Arena &arena, Isa, Step step) {
  CombineSplitsArgs a{};
  a.heads = kHeads, a.latent = kLatent, a.splits = 32;
  a.xStride = kHeads * (kLatent + 2), a.outStride = kHeads * kLatent;
  a.x = arena.floats(step.tokens * a.splits * a.xStride);
  a.out = arena.floats(step.tokens * a.outStride);
  double values = double(step.tokens) * a.splits * double(a.xStride);
  return {keep(a), 0, 2 * values, 4 * values};
}

template <KvType Type> Work mlaAttention(Arena &arena, Isa isa, Step step) {
  MlaAttentionArgs a{};
  const GemmInfo &gemm = gemmFor(Format::Q4_K, isa);
  a.keyGemm = a.valueGemm = resolveGemm(gemm.name);
  a.encoding = gemm.activation;
  a.heads = kHeads, a.nope = kNope, a.rope = kRope, a.latent = kLatent;
  a.value = kValue, a.scale = 0.07f;
  a.qStride = kHeads * (kNope + kRope), a.outStride = kHeads * kValue;
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.floats(step.tokens * a.outStride);
  a.kv = cache(arena, step, Type);
  a.wk = arena.weights(Format::Q4_K, kHeads, kNope, kLatent);
  a.wv = arena.weights(Format::Q4_K, kHeads, kValue, kLatent);
  double rows = step.position + step.tokens;
  return {keep(a),
          size_t(mlaAttentionScratchBytes(kNope, kRope, kLatent, kValue)),
          2 * kHeads *
              (pairs(step) * (kNope + kRope + kValue) +
               rows * (kNope + kValue) * kLatent),
          double(a.kv.capacity * a.kv.rowStride)};
}

/// Head shapes of Qwen3-30B-A3B.
constexpr int32_t kQueryHeads = 32, kKvHeads = 4, kHeadSize = 128;

Work kvStore(Arena &arena, Isa, Step step) {
  KvStoreArgs a{};
  a.heads = kKvHeads, a.key = a.value = kHeadSize;
  a.kStride = a.vStride = kKvHeads * kHeadSize;
  a.k = arena.floats(step.tokens * a.kStride);
  a.v = arena.floats(step.tokens * a.vStride);
  a.kv = cache(arena, step, KvType::Q8_0,
               gqaKvWidth(kKvHeads, kHeadSize, kHeadSize));
  double values = 2.0 * step.tokens * double(a.kStride);
  return {keep(a), 0, 3 * values, 5 * values};
}

/// `Window` is 0 for no window.
template <KvType Type, int32_t Window>
Work attention(Arena &arena, Isa, Step step) {
  AttentionArgs a{};
  a.heads = kQueryHeads, a.kvHeads = kKvHeads, a.key = a.value = kHeadSize;
  a.qStride = a.outStride = kQueryHeads * kHeadSize;
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.floats(step.tokens * a.outStride);
  a.kv = cache(arena, step, Type, gqaKvWidth(kKvHeads, kHeadSize, kHeadSize));
  a.splits = 1, a.window = Window;
  a.scale = 0.09f;
  double seen = 0;
  for (int32_t t = 0; t < step.tokens; ++t)
    seen += std::min(step.position + t + 1, Window ? Window : INT32_MAX);
  return {keep(a),
          size_t(attentionScratchBytes(a.heads, a.kvHeads, a.key, a.value)),
          2 * seen * kQueryHeads * 2 * kHeadSize,
          double(a.kv.capacity * a.kv.rowStride)};
}

/// Gates elements of the attention output.
Work gateMul(Arena &arena, Isa, Step step) {
  GateMulArgs a{};
  a.cols = a.gates = kQueryHeads * kHeadSize;
  a.x = arena.floats(step.tokens * a.cols);
  a.gate = arena.floats(step.tokens * a.cols);
  a.out = arena.make<float>(step.tokens * a.cols);
  // The operations are: exponential, sum and quotient.
  double values = double(step.tokens) * double(a.cols);
  return {keep(a), 0, 3 * values, 12 * values};
}

Work expertsGateUp(Arena &arena, Isa isa, Step step) {
  ExpertsGateUpArgs a{};
  const GemmInfo &gemm = gemmFor(Format::Q4_K, isa);
  a.act = activations(arena, gemm, step.tokens, kHidden, a.actStride);
  a.gate = arena.weights(Format::Q4_K, kExperts, kExpertSize, kHidden);
  a.up = arena.weights(Format::Q4_K, kExperts, kExpertSize, kHidden);
  a.gateGemm = a.upGemm = resolveGemm(gemm.name);
  Slots s = routed(arena, step);
  a.offsets = s.offsets, a.slots = s.slots, a.topK = kTopK;
  a.outStride = kExpertSize;
  a.out = arena.make<float>(step.tokens * kTopK * a.outStride);
  return {keep(a), size_t(gateUpScratchBytes()),
          4.0 * step.tokens * kTopK * kExpertSize * kHidden,
          2 * s.touched * double(a.gate.outerStride)};
}

Work expertsLinear(Arena &arena, Isa isa, Step step) {
  ExpertsLinearArgs a{};
  const GemmInfo &gemm = gemmFor(Format::Q8_0, isa);
  a.act =
      activations(arena, gemm, step.tokens * kTopK, kExpertSize, a.actStride);
  a.w = arena.weights(Format::Q8_0, kExperts, kHidden, kExpertSize);
  a.gemm = resolveGemm(gemm.name);
  Slots s = routed(arena, step);
  a.offsets = s.offsets, a.slots = s.slots, a.topK = kTopK;
  a.outStride = kHidden;
  a.out = arena.make<float>(step.tokens * kTopK * a.outStride);
  return {keep(a), size_t(gemmScratchBytes()),
          2.0 * step.tokens * kTopK * kExpertSize * kHidden,
          s.touched * double(a.w.outerStride)};
}

Work quantize(Arena &arena, Isa, Step step) {
  QuantizeArgs a{};
  a.x = arena.floats(step.tokens * kHidden);
  a.xStride = a.cols = kHidden, a.rowsPerToken = 1;
  a.blockCols = kA8Block;
  a.outStride = a8RowBytes(kHidden);
  a.out = arena.make<uint8_t>(step.tokens * a.outStride);
  // The operations are: maximum, product and sum.
  double values = double(step.tokens) * kHidden;
  return {keep(a), 0, 3 * values, 5 * values};
}

void runDriver(benchmark::State &state, const KernelInfo &kernel,
               MakeWork makeWork, Step step) {
  Arena arena;
  Work work = makeWork(arena, kernel.isa, step);
  Worker worker{0, 1, arena.bytes(work.scratchBytes)};
  KernelFn function = resolveKernel(kernel.name);
  for (auto _ : state) {
    function(work.args.get(), step, worker);
    benchmark::ClobberMemory();
  }
  double calls = double(state.iterations());
  state.counters["ops"] =
      benchmark::Counter(work.ops * calls, benchmark::Counter::kIsRate);
  state.SetBytesProcessed(int64_t(work.bytes * calls));
}

/// Returns whether a kernel is measured. The speed of reference kernels does
/// not matter, unless there is no other kernel for CPUs.
bool isMeasured(const KernelInfo &kernel) {
  auto table = kernelTable();
  return hostSupports(kernel.isa) &&
         (kernel.isa != Isa::Ref ||
          std::none_of(table.begin(), table.end(), [&](const KernelInfo &k) {
            return k.op == kernel.op && k.isa != Isa::Ref && k.isa != Isa::Cuda;
          }));
}

struct Case {
  OpCode op;
  MakeWork makeWork;
  std::vector<Step> steps;
  /// Part of the name, if the op has several variants.
  std::string variant = {};
};

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  const Case cases[] = {
      {OpCode::Embed, embed, {{1, 0}, {512, 0}}},
      {OpCode::EmbedPositions, embedPositions, {{1, 100}, {512, 0}}},
      {OpCode::PositionScale, positionScale, {{1, 9000}, {512, 0}}},
      {OpCode::Scale, scale, {{1, 0}, {512, 0}}},
      {OpCode::RopeTable, ropeTable, {{1, 0}, {512, 0}}},
      {OpCode::RmsNorm, rmsNorm, {{1, 0}, {512, 0}}},
      {OpCode::Quantize, quantize, {{1, 0}, {512, 0}}},
      {OpCode::Linear, linear, {{1, 0}, {8, 0}}},
      {OpCode::GateUp, gateUp, {{1, 0}, {8, 0}, {512, 0}}},
      {OpCode::ActivationMul, activationMul, {{1, 0}, {512, 0}}},
      {OpCode::Add, add, {{1, 0}, {512, 0}}},
      {OpCode::Rope, rope, {{1, 0}, {512, 0}}},
      {OpCode::MlaLatent, mlaLatent, {{1, 0}, {512, 0}}},
      {OpCode::Router, router, {{1, 0}, {512, 0}}},
      {OpCode::ExpertGroup, expertGroup, {{1, 0}, {512, 0}}},
      {OpCode::ExpertsCombine, expertsCombine, {{1, 0}, {512, 0}}},
      {OpCode::AbsorbQuery, absorbQuery, {{1, 0}, {8, 0}, {64, 0}}},
      {OpCode::HeadLinear, expandValue, {{1, 0}, {8, 0}, {64, 0}}, "values"},
      {OpCode::HeadLinear, absorbTransposed, {{1, 0}, {8, 0}, {64, 0}}, "keys"},
      {OpCode::LatentAttention,
       latentAttention<KvType::F16>,
       {{1, 511}, {1, 4095}, {8, 4095}, {1, 16383}},
       "f16"},
      {OpCode::LatentAttention,
       latentAttention<KvType::Q8_0>,
       {{1, 511}, {1, 4095}, {8, 4095}, {1, 16383}},
       "q8_0"},
      {OpCode::CombineSplits, combineSplits, {{1, 4095}}},
      {OpCode::MlaAttention,
       mlaAttention<KvType::F16>,
       {{512, 0}, {512, 1536}, {512, 3584}},
       "f16"},
      {OpCode::MlaAttention,
       mlaAttention<KvType::Q8_0>,
       {{512, 0}, {512, 1536}, {512, 3584}},
       "q8_0"},
      {OpCode::KvStore, kvStore, {{1, 0}, {512, 0}}},
      {OpCode::Attention,
       attention<KvType::F16, 0>,
       {{1, 511}, {1, 4095}, {512, 0}, {512, 3584}},
       "f16"},
      {OpCode::Attention,
       attention<KvType::Q8_0, 0>,
       {{1, 511}, {1, 4095}, {1, 65535}, {512, 0}, {512, 1536}, {512, 3584}},
       "q8_0"},
      {OpCode::Attention,
       attention<KvType::Q8_0, 128>,
       {{1, 4095}, {512, 3584}},
       "q8_0_window_128"},
      {OpCode::GateMul, gateMul, {{1, 0}, {512, 0}}},
      {OpCode::ExpertsGateUp, expertsGateUp, {{1, 0}, {8, 0}, {512, 0}}},
      {OpCode::ExpertsLinear, expertsLinear, {{1, 0}, {8, 0}, {512, 0}}},
      {OpCode::SplitChoices, splitChoices, {{1, 0}, {512, 0}}},
      {OpCode::ExpertsActivationMul, expertsActivationMul, {{1, 0}, {512, 0}}},
      {OpCode::Copy, copy, {{1, 0}, {512, 0}}},
      {OpCode::Regroup, regroup, {{1, 0}, {512, 0}}},
      {OpCode::ShortConv, shortConv, {{1, 4095}, {512, 0}}},
      {OpCode::ShortConv, shortConvPlain, {{1, 4095}, {512, 0}}, "plain"},
      {OpCode::DeltaGates, deltaGates, {{1, 0}, {512, 0}}},
      {OpCode::DeltaGates,
       deltaGatesOfChannels,
       {{1, 0}, {512, 0}},
       "channels"},
      {OpCode::DeltaRule, deltaRule, {{1, 4095}, {8, 4095}, {512, 0}}},
      {OpCode::DeltaRule,
       deltaRuleOfChannels,
       {{1, 4095}, {8, 4095}, {512, 0}},
       "channels"},
      {OpCode::DeltaRule,
       deltaRuleOfSums,
       {{1, 4095}, {8, 4095}, {512, 0}},
       "sums"},
      {OpCode::LayerNorm, layerNorm, {{1, 0}, {512, 0}}},
      {OpCode::RowStore, rowStore, {{1, 0}, {512, 0}}},
      {OpCode::IndexScores,
       indexScoresOfRows,
       {{1, 4095}, {1, 32767}, {64, 4095}},
       "q8_0"},
      {OpCode::IndexScores,
       indexScoresOfEntries,
       {{1, 4095}, {1, 32767}, {64, 4095}},
       "q8_0_ratio_4"},
      {OpCode::IndexSelect, indexSelect, {{1, 4095}, {1, 32767}, {64, 4095}}},
      {OpCode::BlockMaxima, blockMaxima, {{1, 32767}, {64, 4095}}},
      {OpCode::KeepBlocks, keepBlocks, {{1, 32767}, {64, 4095}}},
      {OpCode::BlockScores, blockScores, {{1, 4095}, {1, 32767}, {64, 4095}}},
      {OpCode::BlockAttention,
       blockAttention,
       {{1, 4095}, {1, 32767}, {8, 4095}}},
      {OpCode::SparseAttention,
       latentOfChosenF16,
       {{1, 4095}, {1, 32767}, {8, 4095}},
       "f16"},
      {OpCode::SparseAttention,
       latentOfChosenQ8,
       {{1, 4095}, {1, 32767}, {8, 4095}},
       "q8_0"},
      {OpCode::SparseAttention,
       windowAndChosen,
       {{1, 4095}, {1, 32767}, {8, 4095}},
       "q8_0_ratio_4"},
      {OpCode::SparseAttention,
       windowAndEntries,
       {{1, 4095}, {1, 32767}, {8, 4095}},
       "q8_0_ratio_128"},
      {OpCode::Compress, compressBy4, {{1, 4095}, {512, 0}}, "ratio_4"},
      {OpCode::Compress, compressBy128, {{1, 4095}, {512, 0}}, "ratio_128"},
      {OpCode::EntryStore, entryStore, {{1, 4095}, {512, 0}}},
      {OpCode::HyperWeights, hyperWeights, {{1, 0}, {512, 0}}},
      {OpCode::HyperCollapse, hyperCollapse, {{1, 0}, {512, 0}}},
      {OpCode::HyperSpread, hyperSpread, {{1, 0}, {512, 0}}},
      {OpCode::ResidualMix, residualMix, {{1, 0}, {512, 0}}},
      {OpCode::Concat, concat, {{1, 0}, {512, 0}}},
      {OpCode::ClampedMul, clampedMul, {{1, 0}, {512, 0}}},
      {OpCode::GateStreams, gateStreams, {{1, 0}, {512, 0}}},
      {OpCode::NgramEmbed, ngramEmbed, {{1, 100}, {512, 0}}},
      {OpCode::HashRouter, hashRouter, {{1, 0}, {512, 0}}},
  };
  for (const KernelInfo &kernel : kernelTable())
    if (kernel.isa != Isa::Cuda &&
        std::none_of(std::begin(cases), std::end(cases),
                     [&](const Case &c) { return c.op == kernel.op; })) {
      std::fprintf(stderr, "bench_ops: no benchmark of %s\n",
                   std::string(kernel.name).c_str());
      return 1;
    }
  for (const Case &c : cases)
    for (const KernelInfo &kernel : kernelTable()) {
      if (kernel.op != c.op || !isMeasured(kernel))
        continue;
      for (Step step : c.steps) {
        std::string name(kernel.name);
        if (!c.variant.empty())
          name += "/" + c.variant;
        name += "/" + std::to_string(step.tokens);
        if (step.position > 0)
          name += "/" + std::to_string(step.position);
        benchmark::RegisterBenchmark(
            name.c_str(), [&kernel, &c, step](benchmark::State &state) {
              runDriver(state, kernel, c.makeWork, step);
            });
      }
    }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
