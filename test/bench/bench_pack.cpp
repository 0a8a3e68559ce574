//===- bench_pack.cpp - Measures the packers of all instruction sets ------===//
//
// Prints for each format how many gigabytes of GGUF rows one thread packs per
// second with each instruction set that this CPU has, beside memcpy() of the
// same bytes. Rows are 256 KiB, which moert reads at a time, and come from the
// CPU's cache; panels go to memory. memcpy() copies between the same places.
//
//===----------------------------------------------------------------------===//

#include "kernels/pack/Packers.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

using namespace moek;

namespace {

constexpr size_t kReadBytes = size_t(256) << 10;
constexpr size_t kOutBytes = size_t(256) << 20;
constexpr Isa kIsas[] = {Isa::Ref, Isa::Avx2, Isa::Avx512};

double cpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// Returns the best of five rates at which `work(out)` reads `bytes` bytes and
/// writes `written` to ascending places in `out`, in GB per second of CPU time.
template <class Work>
double rateOf(std::vector<uint8_t> &out, size_t bytes, size_t written,
              Work work) {
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    double start = cpuSeconds();
    size_t times = 0;
    for (size_t at = 0; at + written <= out.size(); at += written, ++times)
      work(out.data() + at);
    double seconds = cpuSeconds() - start;
    best = std::max(best, double(times * bytes) / seconds * 1e-9);
  }
  return best;
}
} // namespace

int main(int argc, char **argv) {
  int64_t cols = 2048;
  CLI::App app("Speed of packing, by format and instruction set.");
  app.add_option("--cols", cols, "Columns, a multiple of 256")
      ->capture_default_str()
      ->check(CLI::Range(256, 1 << 14));
  CLI11_PARSE(app, argc, argv);
  cols = cols / 256 * 256;

  std::vector<uint8_t> in(kReadBytes), out(kOutBytes, 1);
  std::mt19937_64 random(1);
  std::generate(in.begin(), in.end(), [&] { return uint8_t(random()); });
  double copied = rateOf(out, in.size(), in.size(), [&](uint8_t *to) {
    std::memcpy(to, in.data(), in.size());
  });
  std::printf("memcpy  %6.2f GB/s\n\n%-8s", copied, "GB/s");
  for (Isa isa : kIsas)
    std::printf("%8s", std::string(isaName(isa)).c_str());
  std::printf("%10s\n", "of memcpy");
  for (uint32_t number = 0; number < 256; ++number) {
    std::optional<Format> format = formatFromNumber(number);
    if (!format || !hasRows16(*format, cols))
      continue;
    auto rowSize = int64_t(rowBytes(*format, uint64_t(cols)));
    auto panel =
        int64_t(16 * rowBytes(Layout::Rows16, *format, uint64_t(cols)));
    int64_t panels = std::max<int64_t>(1, int64_t(kReadBytes) / 16 / rowSize);
    in.resize(std::max(in.size(), size_t(panels * 16 * rowSize)), 1);
    std::printf("%-8s", std::string(formatInfo(*format).name).c_str());
    double rate = 0;
    for (Isa isa : kIsas) {
      PackPanelFn *pack = packerOf(isa);
      if (!pack || !hostSupports(isa)) {
        std::printf("%8s", "-");
        continue;
      }
      rate = rateOf(out, size_t(panels * 16 * rowSize), size_t(panels * panel),
                    [&](uint8_t *to) {
                      for (int64_t i = 0; i < panels; ++i)
                        (void)pack(*format, in.data() + i * 16 * rowSize,
                                   rowSize, 16, cols, to + i * panel);
                    });
      std::printf("%8.2f", rate);
    }
    std::printf("%10.2f\n", rate / copied);
  }
}
