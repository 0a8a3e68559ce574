//===- bench_gemm.cpp - Speed of every gemm on one core -------------------===//
//
// One benchmark per gemm that this CPU can run and token count 1, 8 and 64. A
// call is what a driver makes: a tile of 64 rows of 2048 columns. Tiles walk
// through 192 MiB of weights, more than any cache, so that with one token the
// limit is the memory.
//
// Counters: bytes_per_second of weights read, ops per second (a multiply and an
// add are two), and both as fractions of this core's limits, measured at the
// start: a streaming read, and register-only vpdpbusd (for float formats, FMA)
// of the kernel's instruction set.
//
//===----------------------------------------------------------------------===//

#include "kernels/Peak.h"
#include "kernels/Registry.h"
#include "kernels/Scratch.h"
#include "test/kernels/GemmProblem.h"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <ctime>
#include <map>
#include <memory>

using namespace moek;
using namespace moek::test;

namespace {

constexpr int64_t kCols = 2048;
constexpr size_t kWeightBytes = size_t(192) << 20;

/// This thread's CPU time in seconds, as benchmark rates use it: other
/// processes on the machine do not count.
double cpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// The best of a few runs of `work`, in units of what it returns per second.
template <class Work> double bestRate(Work &&work) {
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    double begin = cpuSeconds();
    double amount = work();
    best = std::max(best, amount / (cpuSeconds() - begin));
  }
  return best;
}

/// Weights shared by all benchmarks of a format: filling them takes longer
/// than measuring.
class Weights {
public:
  Weights() : bytes_(kWeightBytes) {}

  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte *>(bytes_.data()), bytes_.size()};
  }

  /// Rows for `gemm`; random ones, repeated.
  const uint8_t *of(const GemmInfo &gemm, int64_t stride) {
    if (!filled_ || format_ != gemm.format || layout_ != gemm.layout) {
      std::mt19937 random(1);
      size_t tile = size_t(kRowTile * stride);
      std::vector<uint8_t> rows(tile);
      randomWeights(gemm.format, kRowTile, kCols, stride, random, rows.data());
      rows = layOut(gemm.layout, gemm.format, rows, kRowTile, kCols);
      for (size_t at = 0; at + tile <= bytes_.size(); at += tile)
        std::copy_n(rows.data(), tile, bytes_.data() + at);
      format_ = gemm.format;
      layout_ = gemm.layout;
      filled_ = true;
    }
    return bytes_.data();
  }

private:
  std::vector<uint8_t> bytes_;
  bool filled_ = false;
  Format format_ = Format::F32;
  Layout layout_ = Layout::Gguf;
};

struct Limits {
  double bytesPerSecond;
  std::map<std::pair<Isa, Peak>, double> opsPerSecond;
};

void runGemm(benchmark::State &state, const GemmInfo &info, int64_t tokens,
             Weights &weights, const Limits &limits) {
  GemmFn gemm = resolveGemm(info.name);
  int64_t stride = int64_t(rowBytes(info.format, kCols));
  const uint8_t *w = weights.of(info, stride);
  int64_t tileBytes = stride * kRowTile;
  int64_t tiles = int64_t(kWeightBytes) / tileBytes;
  GemmProblem inputs(info, 1, tokens, kCols, 1);
  std::vector<float> out(size_t(kRowTile * tokens));
  int64_t tile = 0;
  for (auto _ : state) {
    gemm(w + tile * tileBytes, stride, kRowTile, inputs.activations(), tokens,
         kCols, out.data(), kRowTile);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
    if (++tile == tiles)
      tile = 0;
  }
  double calls = double(state.iterations());
  double ops = 2.0 * double(kRowTile * kCols * tokens) * calls;
  double bytes = double(tileBytes) * calls;
  Peak kind = info.activation == Encoding::A8 ? Peak::Int8 : Peak::Float;
  state.SetBytesProcessed(int64_t(bytes));
  using Counter = benchmark::Counter;
  state.counters["ops"] = Counter(ops, Counter::kIsRate);
  state.counters["of_read"] =
      Counter(bytes / limits.bytesPerSecond, Counter::kIsRate);
  state.counters["of_peak"] =
      Counter(ops / limits.opsPerSecond.at({info.isa, kind}), Counter::kIsRate);
}

Limits measureLimits(std::span<const std::byte> memory) {
  Limits limits;
  Isa best = Isa::Ref;
  for (Isa isa : {Isa::Ref, Isa::Avx2, Isa::Avx512})
    if (hostSupports(isa)) {
      best = isa;
      for (Peak kind : {Peak::Int8, Peak::Float})
        limits.opsPerSecond[{isa, kind}] =
            bestRate([&] { return runPeakLoop(isa, kind, 1'000'000); });
    }
  limits.bytesPerSecond = bestRate([&] {
    benchmark::DoNotOptimize(readAll(best, memory));
    return double(memory.size());
  });
  return limits;
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  auto weights = std::make_unique<Weights>();
  Limits limits = measureLimits(weights->bytes());
  benchmark::AddCustomContext("read_gbps",
                              std::to_string(limits.bytesPerSecond / 1e9));
  for (const auto &[key, ops] : limits.opsPerSecond)
    benchmark::AddCustomContext(
        std::string(isaName(key.first)) +
            (key.second == Peak::Int8 ? "_int8_gops" : "_float_gflops"),
        std::to_string(ops / 1e9));
  for (const GemmInfo &info : gemmTable()) {
    if (!hostSupports(info.isa))
      continue;
    for (int64_t tokens : {1, 8, 64})
      if (tokens >= info.minTokens && tokens <= info.maxTokens)
        benchmark::RegisterBenchmark(
            (std::string(info.name) + "/" + std::to_string(tokens)).c_str(),
            [&info, tokens, &weights, &limits](benchmark::State &state) {
              runGemm(state, info, tokens, *weights, limits);
            })
            ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
