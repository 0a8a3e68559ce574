//===- bench_gemm.cpp - Measures the speed of every GEMM kernel -----------===//
//
// One benchmark per GEMM that this CPU can run, shape, number of tokens and
// number of threads, named kernel/COLSxROWS/tokens. An iteration is one weight
// matrix, in the tiles that plans hand to a GEMM, with its rows distributed
// over the threads. Successive matrices fill 256 MiB, more than any cache, so
// that memory limits small numbers of tokens. --weight-mib sets another size:
// one that fits in a core's cache shows what the instructions of a kernel alone
// would allow.
//
// Counters: bytes_per_second of weights read, ops per second (a multiply and an
// add count as two), and both as fractions of what the same threads can do.
// of_read is relative to a streaming read of the same memory just before and
// after, because other programs change its speed from second to second. of_peak
// is relative to register-only vpdpbusd (for float formats, FMA) of the
// kernel's instruction set, measured at the start, per thread; of_mix to a loop
// of the instructions that this format's products take (runProductLoop).
//
// One thread is timed in CPU time, several in wall time.
//
//===----------------------------------------------------------------------===//

#include "kernels/Peak.h"
#include "kernels/Registry.h"
#include "kernels/Scratch.h"
#include "kernels/quant/Rows16.h"
#include "test/bench/Shapes.h"
#include "test/kernels/GemmProblem.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>

using namespace moek;
using namespace moek::bench;
using namespace moek::test;

namespace {

/// Minimum bytes for a measurement of plain reading.
constexpr size_t kReadBytes = size_t(256) << 20;

double secondsOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// Returns the units that `work` returns, per second of `clock`.
template <class Work> double rateOf(clockid_t clock, Work &&work) {
  double begin = secondsOf(clock);
  double amount = work();
  return amount / (secondsOf(clock) - begin);
}

/// Memory shared by all benchmarks, because filling it takes longer than
/// measuring. It is in large pages, like plan.weights; without them, address
/// translation can take half of the time of a streaming read.
class Weights {
public:
  explicit Weights(size_t size)
      : size_(size),
        bytes_(static_cast<uint8_t *>(std::aligned_alloc(
            kLargePage, (size + kLargePage - 1) / kLargePage * kLargePage))) {
    if (!bytes_) {
      std::fprintf(stderr,
                   "%zu bytes of weights cannot be had; choose a "
                   "smaller --weight-mib\n",
                   size);
      std::exit(1);
    }
    (void)madvise(bytes_.get(), size, MADV_HUGEPAGE);
    std::memset(bytes_.get(), 0, size);
  }

  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte *>(bytes_.get()), size_};
  }

  /// Returns matrices of `shape` one after another: a tile of random rows,
  /// repeated.
  const uint8_t *of(const GemmInfo &gemm, const Shape &shape) {
    std::string key = shape.name() + "/" + std::to_string(int(gemm.format)) +
                      "/" + std::to_string(int(gemm.layout));
    // One thread of a benchmark fills the memory; the others wait.
    std::lock_guard lock(mutex_);
    if (key_ == key)
      return bytes_.get();
    std::mt19937 random(1);
    int64_t stride = int64_t(rowBytes(gemm.format, uint64_t(shape.cols)));
    size_t tile = size_t(kRowTile * stride);
    std::vector<uint8_t> rows(tile);
    randomWeights(gemm.format, kRowTile, shape.cols, stride, random,
                  rows.data());
    rows = layOut(gemm.layout, gemm.format, rows, kRowTile, shape.cols);
    for (size_t at = 0; at + tile <= size_; at += tile)
      std::copy_n(rows.data(), tile, bytes_.get() + at);
    key_ = key;
    return bytes_.get();
  }

private:
  struct Free {
    void operator()(uint8_t *bytes) const { std::free(bytes); }
  };
  static constexpr size_t kLargePage = size_t(2) << 20;
  size_t size_;
  std::unique_ptr<uint8_t[], Free> bytes_;
  std::mutex mutex_;
  std::string key_;
};

/// State shared by all benchmarks.
struct Machine {
  Weights weights;
  Isa best = Isa::Ref;
  std::map<std::pair<Isa, Peak>, double> opsPerSecond;

  explicit Machine(size_t weightBytes) : weights(weightBytes) {
    for (const IsaInfo &info : isaTable())
      if (Isa isa = info.isa; hostSupports(isa)) {
        best = isa;
        for (Peak kind : {Peak::Int8, Peak::Float, Peak::Bf16})
          for (int i = 0; i < 5; ++i) {
            double &rate = opsPerSecond[{isa, kind}];
            rate = std::max(rate, rateOf(CLOCK_THREAD_CPUTIME_ID, [&] {
                              return runPeakLoop(isa, kind, 1'000'000);
                            }));
          }
      }
  }

  /// Ops per second of the instructions that products of `format` take.
  double productRate(Isa isa, Format format) {
    std::lock_guard lock(mutex_);
    double &rate = productRates_[{isa, format}];
    for (int i = rate == 0 ? 0 : 5; i < 5; ++i)
      rate = std::max(rate, rateOf(CLOCK_THREAD_CPUTIME_ID, [&] {
                        return runProductLoop(isa, format, 1'000'000);
                      }));
    return rate;
  }

private:
  std::mutex mutex_;
  std::map<std::pair<Isa, Format>, double> productRates_;
};

struct Case {
  const GemmInfo *gemm;
  Shape shape;
  int64_t tokens;
};

void runGemm(benchmark::State &state, const Case &c, Machine &machine) {
  const GemmInfo &info = *c.gemm;
  GemmFn gemm = resolveGemm(info.name);
  int64_t stride = int64_t(rowBytes(info.format, uint64_t(c.shape.cols)));
  int64_t matrixBytes = stride * c.shape.rows;
  int64_t matrices = int64_t(machine.weights.size()) / matrixBytes;
  const uint8_t *weights = machine.weights.of(info, c.shape);
  Range rows = shareOf(c.shape.rows, kRows16,
                       Worker{state.thread_index(), state.threads(), nullptr});
  GemmProblem inputs(info, 1, c.tokens, c.shape.cols, 1);
  std::vector<float> out(size_t(kRowTile * c.tokens));

  clockid_t clock =
      state.threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  size_t part = machine.weights.size() / size_t(state.threads());
  size_t times = std::max(kReadBytes / machine.weights.size(), size_t(1));
  auto readRate = [&] {
    return rateOf(clock, [&] {
      for (size_t i = 0; i < times; ++i)
        benchmark::DoNotOptimize(readAll(
            machine.best, machine.weights.bytes().subspan(
                              size_t(state.thread_index()) * part, part)));
      return double(part * times);
    });
  };
  double products = machine.productRate(info.isa, info.format);
  double limit = readRate();
  int64_t matrix = 0;
  for (auto _ : state) {
    const uint8_t *w = weights + matrix * matrixBytes;
    for (int64_t r = rows.begin; r < rows.end; r += kRowTile) {
      gemm(w + r * stride, stride, std::min(rows.end - r, kRowTile),
           inputs.activations(), c.tokens, c.shape.cols, out.data(), kRowTile);
      benchmark::DoNotOptimize(out.data());
      benchmark::ClobberMemory();
    }
    if (++matrix == matrices)
      matrix = 0;
  }
  limit = (limit + readRate()) / 2;

  double done = double(rows.end - rows.begin) * double(state.iterations());
  double ops = 2.0 * double(c.shape.cols * c.tokens) * done;
  double bytes = double(stride) * done;
  Peak kind = isA8(info.activation)  ? Peak::Int8
              : info.isa == Isa::Amx ? Peak::Bf16
                                     : Peak::Float;
  state.SetBytesProcessed(int64_t(bytes));
  using Counter = benchmark::Counter;
  state.counters["ops"] = Counter(ops, Counter::kIsRate);
  // Threads add fractions, so the counters are averages.
  state.counters["of_read"] = Counter(bytes / limit, Counter::kAvgThreadsRate);
  state.counters["of_peak"] =
      Counter(ops / machine.opsPerSecond.at({info.isa, kind}),
              Counter::kAvgThreadsRate);
  if (kind == Peak::Int8)
    state.counters["of_mix"] =
        Counter(ops / products, Counter::kAvgThreadsRate);
}

bool fits(const GemmInfo &gemm, const Shape &shape, size_t weightBytes) {
  if (uint64_t(shape.rows) * rowBytes(gemm.format, uint64_t(shape.cols)) >
      weightBytes)
    return false;
  return shape.cols % formatInfo(gemm.format).blockElements == 0 &&
         (gemm.layout != Layout::Rows16 || hasRows16(gemm.format, shape.cols));
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::string> shapeNames{"2048x1408"};
  std::vector<int64_t> tokenCounts{1, 8, 64};
  std::vector<int> threadCounts{1};
  double weightMib = 256;
  CLI::App app("Speed of every gemm. Takes Google Benchmark's options, too.");
  app.add_option("--shapes", shapeNames,
                 "COLSxROWS, or the experts of " + knownModels())
      ->delimiter(',');
  app.add_option("--tokens", tokenCounts, "Token counts")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  app.add_option("--threads", threadCounts, "Numbers of threads")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  app.add_option("--weight-mib", weightMib,
                 "MiB of weights that the matrices of a shape fill")
      ->capture_default_str()
      ->check(CLI::Range(0.0625, 65536.0));
  CLI11_PARSE(app, argc, argv);

  std::vector<Shape> shapes;
  for (const std::string &name : shapeNames) {
    auto parsed = parseShapes(name);
    if (!parsed) {
      fprintf(stderr,
              "bench_gemm: no shape '%s': COLSxROWS with rows a multiple of "
              "%d, or one of %s\n",
              name.c_str(), int(kRowTile), knownModels().c_str());
      return 2;
    }
    shapes.insert(shapes.end(), parsed->begin(), parsed->end());
  }

  Machine machine(size_t(weightMib * (1 << 20)));
  for (const auto &[key, ops] : machine.opsPerSecond)
    benchmark::AddCustomContext(
        std::string(isaName(key.first)) +
            (key.second == Peak::Int8 ? "_int8_gops" : "_float_gflops"),
        std::to_string(ops / 1e9));
  for (const Shape &shape : shapes)
    for (const GemmInfo &info : gemmTable())
      for (int64_t tokens : tokenCounts) {
        if (!hostSupports(info.isa) ||
            !fits(info, shape, machine.weights.size()) ||
            tokens < info.minTokens || tokens > info.maxTokens)
          continue;
        Case c{&info, shape, tokens};
        for (int threads : threadCounts) {
          auto *benchmark = benchmark::RegisterBenchmark(
              (std::string(info.name) + "/" + shape.name() + "/" +
               std::to_string(tokens))
                  .c_str(),
              [c, &machine](benchmark::State &state) {
                runGemm(state, c, machine);
              });
          benchmark->Unit(benchmark::kMicrosecond);
          if (threads > 1)
            benchmark->Threads(threads)->UseRealTime();
        }
      }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
