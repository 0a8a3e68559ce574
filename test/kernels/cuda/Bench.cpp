//===- Bench.cpp - Benchmark of CUDA kernels on this machine's GPU --------===//
//
// cuda_bench [NAME] prints rows of a table for test/bench/README.md, for
// kernels whose name contains NAME. There are enough copies of the weights to
// exceed L2, so that each is read from memory. A graph of launches is timed;
// the result is the median of its runs.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/cuda/Workload.h"

#include <algorithm>
#include <fmt/format.h>

using namespace moek;
using namespace moek::test;

namespace {

/// More bytes than any GPU's L2 has.
constexpr int64_t kBeyondL2 = int64_t(512) << 20;
constexpr int kRepeats = 15;

struct Bench {
  Gpu &gpu;
  std::string filter = {};
  Workbench make{gpu};

  bool wants(const std::string &name) const {
    return name.find(filter) != std::string::npos;
  }
  double time(const std::vector<cuda::Launch> &launches) {
    return gpu.time(launches, GpuTest::get().imagesOf(launches), kRepeats);
  }
  /// Prints the row for one copy of `work`.
  void row(const std::string &name, const Workload &work) {
    double seconds = time(work.launches) / double(work.copies);
    fmt::print("{:40} {:9.2f} us {:8.1f} GB/s {:8.2f} TOPS\n", name,
               seconds * 1e6, double(work.weightBytes) / seconds / 1e9,
               work.operations / seconds / 1e12);
    std::fflush(stdout);
    make.freeAll();
  }
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char &c : result)
    c = char(std::tolower(c));
  return result;
}

/// Benchmarks one product of `tokens` rows with a [rows, cols] weight.
void linear(Bench &b, Format format, int64_t rows, int64_t cols,
            int32_t tokens) {
  std::string name =
      fmt::format("linear {} {}x{} T={}", lower(formatInfo(format).name), rows,
                  cols, tokens);
  if (!b.wants(name))
    return;
  int64_t bytes = int64_t(rowBytes(format, uint64_t(cols))) * rows;
  int64_t copies = tokens > 64 ? 4 : std::max<int64_t>(4, kBeyondL2 / bytes);
  b.row(name, b.make.linear(format, rows, cols, tokens, copies));
}

/// Benchmarks gate, up and SiLU of `slots` experts of one token, or of many in
/// prefill.
void experts(Bench &b, Format format, int32_t experts, int64_t rows,
             int64_t cols, int32_t topK, int32_t tokens) {
  std::string name =
      fmt::format("experts gate+up {} {}x{}x{} T={}",
                  lower(formatInfo(format).name), topK, rows, cols, tokens);
  if (b.wants(name))
    b.row(name, b.make.experts(format, experts, rows, cols, topK, tokens,
                               tokens > 64 ? 3 : 16));
}

/// Benchmarks attention on the latent cache including the combination of KV
/// splits.
void latent(Bench &b, KvType type, int32_t heads, int32_t positions,
            int32_t splits) {
  std::string name = fmt::format("latent {} heads={} context={} splits={}",
                                 kvTypeName(type), heads, positions, splits);
  if (!b.wants(name))
    return;
  int64_t bytes = kvRowBytes(type, 576) * positions;
  int64_t copies = std::max<int64_t>(2, kBeyondL2 / 4 / bytes);
  b.row(name, b.make.latent(type, heads, positions, splits, copies));
}

/// Measures what a graph adds per node, with an instruction of a few elements.
void node(Bench &b) {
  if (!b.wants("node"))
    return;
  uint64_t x = b.make.random(1024);
  cuda::LaunchContext context = b.make.context(1, 0);
  AddArgs args{at<float>(x), at<float>(x), at<float>(x), 32};
  std::vector<cuda::Launch> launches;
  for (int i = 0; i < 1000; ++i)
    launches.push_back(launchesOf(OpCode::Add, &args, context)[0]);
  fmt::print("{:40} {:9.2f} us\n", "node", b.time(launches) * 1e3);
  b.make.freeAll();
}

/// Measures a copy, which reads and writes memory.
void copy(Bench &b) {
  if (!b.wants("copy"))
    return;
  constexpr int64_t kBytes = int64_t(1) << 30;
  uint64_t from = b.make.random(kBytes), to = b.make.empty(kBytes);
  cuda::LaunchContext context = b.make.context(1, 0);
  CopyArgs args{at<uint8_t>(from), at<uint8_t>(to), 0, kBytes};
  double seconds = b.time(launchesOf(OpCode::Copy, &args, context));
  fmt::print("{:40} {:9.2f} us {:8.1f} GB/s read and written\n", "copy",
             seconds * 1e6, 2 * double(kBytes) / seconds / 1e9);
  b.make.freeAll();
}

} // namespace

int main(int argc, char **argv) {
  GpuTest &test = GpuTest::get();
  if (!test.gpu || test.gpu->isSoftware()) {
    fmt::print(stderr, "error: there is no GPU to measure: {}\n", test.why);
    return 1;
  }
  Bench b{*test.gpu, argc > 1 ? argv[1] : ""};
  fmt::print("{}, sm_{}, {} multiprocessors\n", test.gpu->name(),
             test.gpu->arch(), test.gpu->multiprocessors());
  node(b);
  copy(b);
  for (Format format : kPackedFormats)
    for (int32_t tokens : {1, 8})
      linear(b, format, 8192, 7168, tokens);
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{2048, 2048},
                            {576, 7168},
                            {7168, 16384},
                            {7168, 2048}})
    linear(b, Format::Q4_K, rows, cols, 1);
  experts(b, Format::Q4_K, 64, 1408, 2048, 6, 1);
  experts(b, Format::Q4_K, 256, 2048, 7168, 8, 1);
  for (KvType type : {KvType::BF16, KvType::Q8_0})
    for (int32_t heads : {16, 128})
      for (int32_t position : {4096, 32768})
        for (int32_t splits : {64, 128})
          latent(b, type, heads, position, splits);
  for (Format format : {Format::Q4_K, Format::Q8_0, Format::Q6_K, Format::Q4_0})
    linear(b, format, 8192, 7168, 512);
  experts(b, Format::Q4_K, 64, 1408, 2048, 6, 512);
  return 0;
}
