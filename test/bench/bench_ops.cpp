//===- bench_ops.cpp - Speed of the drivers that matter -------------------===//
//
// One worker of one, DeepSeek-V2-Lite's shapes: hidden 2048, 16 heads, nope
// 128, rope 64, latent 512, value 128; 64 experts of 1408, 6 per token. Weights
// of experts walk through 27 layers' worth as a model does; those of one head
// matrix stay in cache between calls.
//
// Names are kernel/tokens or kernel/tokens/position. Counters: ops per second
// (a multiply and an add are two), bytes_per_second of weights and cache rows.
//
//===----------------------------------------------------------------------===//

#include "kernels/Activation.h"
#include "kernels/Registry.h"
#include "kernels/Scratch.h"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace moek;

namespace {

constexpr int32_t kHidden = 2048, kHeads = 16, kNope = 128, kRope = 64;
constexpr int32_t kLatent = 512, kValue = 128;
constexpr int32_t kExperts = 64, kTopK = 6, kExpertSize = 1408;

/// Zeroed, 64-byte aligned memory that lives as long as the benchmark.
class Arena {
public:
  std::byte *bytes(size_t size) {
    blocks.push_back(std::make_unique<std::byte[]>(size + 64));
    auto address = reinterpret_cast<uintptr_t>(blocks.back().get());
    return blocks.back().get() + (64 - address % 64) % 64;
  }
  template <class T> T *make(int64_t count) {
    return reinterpret_cast<T *>(bytes(size_t(count) * sizeof(T)));
  }
  float *floats(int64_t count) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    float *p = make<float>(count);
    std::generate_n(p, count, [&] { return normal(random); });
    return p;
  }
  WeightView weights(Format format, int64_t outer, int64_t rows, int64_t cols) {
    int64_t stride = int64_t(rowBytes(format, uint64_t(cols)));
    auto *data = make<uint8_t>(outer * rows * stride);
    // 0x2b in every byte: scales of about 0.05 and mixed codes.
    std::memset(data, 0x2b, size_t(outer * rows * stride));
    return {data, outer, rows, cols, rows * stride, stride, format};
  }

private:
  std::vector<std::unique_ptr<std::byte[]>> blocks;
};

/// The gemm that goes with a driver of `isa`.
const GemmInfo &gemmFor(Format format, Isa isa) {
  for (const GemmInfo &gemm : gemmTable())
    if (gemm.format == format && gemm.isa == isa)
      return gemm;
  return gemmTable().front();
}

/// What one benchmark runs and how much it does.
struct Work {
  std::shared_ptr<const void> args;
  size_t scratchBytes = 0;
  double ops = 0, bytes = 0;
};

using MakeWork = Work (*)(Arena &, Isa, Step);

template <class Args> std::shared_ptr<const void> keep(const Args &args) {
  return std::make_shared<Args>(args);
}

Work absorbQuery(Arena &arena, Isa, Step step) {
  AbsorbQueryArgs a{};
  a.heads = kHeads, a.nope = kNope, a.rope = kRope, a.latent = kLatent;
  a.qStride = kHeads * (kNope + kRope);
  a.outStride = kHeads * (kLatent + kRope);
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.floats(step.tokens * a.outStride);
  a.w = arena.weights(Format::Q4_K, kHeads, kNope, kLatent);
  double products = double(kHeads) * kNope * kLatent;
  return {keep(a), size_t(headLinearScratchBytes(kNope, kLatent)),
          2 * products * step.tokens, double(a.w.outer * a.w.outerStride)};
}

Work expandValue(Arena &arena, Isa, Step step) {
  ExpandValueArgs a{};
  a.heads = kHeads, a.latent = kLatent, a.value = kValue;
  a.xStride = kHeads * kLatent, a.outStride = kHeads * kValue;
  a.x = arena.floats(step.tokens * a.xStride);
  a.out = arena.floats(step.tokens * a.outStride);
  a.w = arena.weights(Format::Q4_K, kHeads, kValue, kLatent);
  double products = double(kHeads) * kValue * kLatent;
  return {keep(a), size_t(headLinearScratchBytes(kValue, kLatent)),
          2 * products * step.tokens, double(a.w.outer * a.w.outerStride)};
}

KvView cache(Arena &arena, Step step) {
  int64_t rows = step.position + step.tokens, width = kLatent + kRope;
  auto *data = arena.make<uint8_t>(rows * width * 2);
  std::memset(data, 0x3d, size_t(rows * width * 2)); // BF16 0.046
  return {data, width, rows, width * 2, KvType::BF16};
}

/// (query, visible row) pairs of a step.
double pairs(Step step) {
  return step.tokens * (step.position + (step.tokens + 1) / 2.0);
}

Work latentAttention(Arena &arena, Isa, Step step) {
  LatentAttentionArgs a{};
  a.heads = kHeads, a.latent = kLatent, a.rope = kRope;
  a.qStride = kHeads * (kLatent + kRope), a.outStride = kHeads * kLatent;
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.floats(step.tokens * a.outStride);
  a.kv = cache(arena, step);
  a.scale = 0.07f;
  return {keep(a), size_t(latentAttentionScratchBytes(kHeads, kLatent, kRope)),
          2 * pairs(step) * kHeads * (2 * kLatent + kRope),
          double(a.kv.capacity * a.kv.rowStride)};
}

Work mlaAttention(Arena &arena, Isa, Step step) {
  MlaAttentionArgs a{};
  a.heads = kHeads, a.nope = kNope, a.rope = kRope, a.latent = kLatent;
  a.value = kValue, a.scale = 0.07f;
  a.qStride = kHeads * (kNope + kRope), a.outStride = kHeads * kValue;
  a.q = arena.floats(step.tokens * a.qStride);
  a.out = arena.floats(step.tokens * a.outStride);
  a.kv = cache(arena, step);
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

/// Slots of uniformly routed tokens.
struct Slots {
  int32_t *offsets, *slots;
  double touched = 0;
};

Slots routed(Arena &arena, Step step) {
  std::mt19937 random(2);
  std::vector<std::vector<int32_t>> lists(kExperts);
  std::vector<int32_t> experts(kExperts);
  for (int32_t e = 0; e < kExperts; ++e)
    experts[size_t(e)] = e;
  for (int32_t t = 0; t < step.tokens; ++t) {
    std::shuffle(experts.begin(), experts.end(), random);
    for (int32_t j = 0; j < kTopK; ++j)
      lists[size_t(experts[size_t(j)])].push_back(t * kTopK + j);
  }
  Slots s{arena.make<int32_t>(kExperts + 1),
          arena.make<int32_t>(step.tokens * kTopK)};
  int32_t at = 0;
  for (int32_t e = 0; e < kExperts; ++e) {
    s.offsets[e] = at;
    for (int32_t slot : lists[size_t(e)])
      s.slots[at++] = slot;
    s.touched += !lists[size_t(e)].empty();
  }
  s.offsets[kExperts] = at;
  return s;
}

/// Rows of `gemm`'s activation encoding, zero.
const uint8_t *activations(Arena &arena, const GemmInfo &gemm, int64_t rows,
                           int64_t cols, int64_t &stride) {
  stride = encodedRowBytes(gemm.activation, cols);
  auto *p = arena.make<uint8_t>(rows * stride);
  std::memset(p, 0, size_t(rows * stride));
  return p;
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

Work router(Arena &arena, Isa, Step step) {
  RouterArgs a{};
  a.logits = arena.floats(step.tokens * kExperts);
  a.stride = kExperts, a.experts = kExperts, a.topK = kTopK;
  a.groups = a.groupsUsed = 1, a.scoring = Scoring::Softmax, a.scale = 1;
  a.ids = arena.make<int32_t>(step.tokens * kTopK);
  a.weights = arena.make<float>(step.tokens * kTopK);
  return {keep(a), size_t(routerScratchBytes(kExperts)), 0, 0};
}

Work rmsNorm(Arena &arena, Isa, Step step) {
  RmsNormArgs a{};
  a.x = arena.floats(step.tokens * kHidden);
  a.weight = arena.floats(kHidden);
  a.out = arena.make<float>(step.tokens * kHidden);
  a.xStride = a.outStride = a.cols = kHidden;
  a.groups = 1, a.eps = 1e-6f;
  return {keep(a), 0, 0, 8.0 * step.tokens * kHidden};
}

Work quantize(Arena &arena, Isa, Step step) {
  QuantizeArgs a{};
  a.x = arena.floats(step.tokens * kHidden);
  a.xStride = a.cols = kHidden, a.rowsPerToken = 1;
  a.outStride = a8RowBytes(kHidden);
  a.out = arena.make<uint8_t>(step.tokens * a.outStride);
  return {keep(a), 0, 0, 4.0 * step.tokens * kHidden};
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
  if (work.ops > 0)
    state.counters["ops"] =
        benchmark::Counter(work.ops * calls, benchmark::Counter::kIsRate);
  if (work.bytes > 0)
    state.SetBytesProcessed(int64_t(work.bytes * calls));
}

struct Case {
  OpCode op;
  MakeWork makeWork;
  std::vector<Step> steps;
};

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  const Case cases[] = {
      {OpCode::RmsNorm, rmsNorm, {{1, 0}, {512, 0}}},
      {OpCode::Quantize, quantize, {{1, 0}, {512, 0}}},
      {OpCode::Router, router, {{1, 0}, {512, 0}}},
      {OpCode::AbsorbQuery, absorbQuery, {{1, 0}, {8, 0}, {64, 0}}},
      {OpCode::ExpandValue, expandValue, {{1, 0}, {8, 0}, {64, 0}}},
      {OpCode::LatentAttention,
       latentAttention,
       {{1, 511}, {1, 4095}, {8, 4095}}},
      {OpCode::MlaAttention, mlaAttention, {{512, 0}, {512, 3584}}},
      {OpCode::ExpertsGateUp, expertsGateUp, {{1, 0}, {8, 0}, {512, 0}}},
      {OpCode::ExpertsLinear, expertsLinear, {{1, 0}, {8, 0}, {512, 0}}},
  };
  for (const Case &c : cases)
    for (const KernelInfo &kernel : kernelTable()) {
      // The reference is for correctness; its speed says nothing.
      if (kernel.op != c.op || kernel.isa == Isa::Ref ||
          !hostSupports(kernel.isa))
        continue;
      for (Step step : c.steps) {
        std::string name =
            std::string(kernel.name) + "/" + std::to_string(step.tokens);
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
