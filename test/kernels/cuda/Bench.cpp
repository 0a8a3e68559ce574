//===- Bench.cpp - Benchmark of CUDA kernels on this machine's GPU --------===//
//
// cuda_bench [NAME] prints the rows of test/bench/results/gpu_*.csv, for
// kernels whose name contains NAME. There are enough copies of the weights to
// exceed L2, so that each is read from memory. A graph of launches is timed;
// the result is the median of its runs.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/cuda/Rows.h"

#include <fmt/format.h>

using namespace moek;
using namespace moek::test;

namespace {

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
  /// Prints the row for one copy of the work.
  void row(const Row &row) {
    if (!wants(row.name))
      return;
    Workload work = row.make(make, row.copies);
    double seconds = time(work.launches) / double(work.copies);
    fmt::print("{:40} {:9.2f} us {:8.1f} GB/s {:8.2f} TOPS\n", row.name,
               seconds * 1e6, double(work.weightBytes) / seconds / 1e9,
               work.operations / seconds / 1e12);
    std::fflush(stdout);
    make.freeAll();
  }
};

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
  copy(b);
  for (const Row &row : benchRows())
    b.row(row);
  return 0;
}
