#include "compiler/Targets/NativeTarget.h"

#include "compiler/Targets/TargetJson.h"
#include "kernels/Activation.h"
#include "runtime/base/HostCpu.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <thread>

using moert::Status;
using moert::StatusOr;

namespace moec {

namespace {
using Clock = std::chrono::steady_clock;

/// Runs `work(thread)` on every thread at once, `repeats` times, and returns
/// the seconds of the fastest repeat: other processes only ever slow one down.
template <typename Work>
double fastestSeconds(unsigned threads, int repeats, Work work) {
  double best = 1e9;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::atomic<unsigned> ready = 0;
    std::vector<std::thread> pool;
    std::vector<double> seconds(threads);
    for (unsigned t = 0; t < threads; ++t)
      pool.emplace_back([&, t] {
        ready.fetch_add(1);
        while (ready.load() < threads)
          std::this_thread::yield();
        auto start = Clock::now();
        work(t);
        seconds[t] =
            std::chrono::duration<double>(Clock::now() - start).count();
      });
    for (std::thread &thread : pool)
      thread.join();
    best = std::min(best, *std::ranges::max_element(seconds));
  }
  return best;
}

/// Bytes per second that all threads together read from memory.
double measureRead(unsigned threads) {
  // 64 MiB a thread: beyond the caches of any core's share.
  constexpr size_t words = (64u << 20) / sizeof(uint64_t);
  std::vector<std::unique_ptr<uint64_t[]>> data(threads);
  for (auto &block : data) {
    block = std::make_unique_for_overwrite<uint64_t[]>(words);
    std::fill_n(block.get(), words, 1);
  }
  std::atomic<uint64_t> sink = 0;
  double seconds = fastestSeconds(threads, 4, [&](unsigned t) {
    // Eight running sums, so that loads and not an addition chain set the pace.
    uint64_t sums[8] = {};
    for (size_t i = 0; i < words; i += 8)
      for (size_t lane = 0; lane < 8; ++lane)
        sums[lane] += data[t][i + lane];
    for (uint64_t sum : sums)
      sink += sum;
  });
  return double(threads) * words * sizeof(uint64_t) / seconds;
}

/// Operations per second of the gemm called `name` on a cache-resident tile,
/// over all threads; 0 if it does not exist.
double measureGemm(const std::string &name, moek::Format format,
                   moek::Encoding encoding, unsigned threads) {
  moek::GemmFn gemm = moek::resolveGemm(name);
  if (!gemm)
    return 0;
  constexpr int64_t rows = 64, tokens = 32, cols = 1024, repeats = 8;
  int64_t weightStride = int64_t(moek::rowBytes(format, cols));
  int64_t actStride = moek::encodedRowBytes(encoding, cols);
  // All-zero bytes are zeros in every format and encoding used here.
  std::vector<uint8_t> weights(rows * weightStride);
  std::vector<uint8_t> acts(tokens * actStride + 64);
  auto *aligned = reinterpret_cast<uint8_t *>(
      (reinterpret_cast<uintptr_t>(acts.data()) + 63) & ~uintptr_t(63));
  std::vector<const uint8_t *> actRows(tokens);
  for (int64_t t = 0; t < tokens; ++t)
    actRows[t] = aligned + t * actStride;
  double seconds = fastestSeconds(threads, 4, [&](unsigned) {
    std::vector<float> out(rows * tokens);
    for (int64_t i = 0; i < repeats; ++i)
      gemm(weights.data(), weightStride, rows, actRows.data(), tokens, cols,
           out.data(), rows);
  });
  return 2.0 * rows * tokens * cols * repeats * threads / seconds;
}

DeviceDesc measureDevice() {
  DeviceDesc device;
  device.model = "native";
  device.title = moert::cpuModelName();
  device.kind = DeviceKind::Cpu;
  for (moek::Isa isa : {moek::Isa::Avx512, moek::Isa::Avx2, moek::Isa::Ref})
    if (moek::hostSupports(isa)) {
      device.isa = isa;
      break;
    }
  device.cores = int(moert::physicalCores().size());
  device.memoryBytes = moert::hostMemoryBytes();
  // For the system and other programs: an eighth, at most 8 GiB.
  device.reservedBytes =
      std::min<uint64_t>(device.memoryBytes / 8, uint64_t(8) << 30);

  unsigned threads = unsigned(device.cores);
  std::string suffix(moek::isaName(device.isa));
  bool quantised = device.isa != moek::Isa::Ref;
  device.readBytesPerSecond = measureRead(threads);
  device.int8OpsPerSecond = measureGemm(
      "gemm_q8_0_" + suffix, moek::Format::Q8_0,
      quantised ? moek::Encoding::A8 : moek::Encoding::F32, threads);
  device.floatOpsPerSecond = measureGemm(
      "gemm_f32_" + suffix, moek::Format::F32, moek::Encoding::F32, threads);
  return device;
}

/// Where measurements are kept; empty when there is no home folder.
std::filesystem::path cacheFile() {
  std::filesystem::path folder;
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    folder = cache;
  else if (const char *home = std::getenv("HOME"); home && *home)
    folder = std::filesystem::path(home) / ".cache";
  else
    return {};
  return folder / "moec" / "native.json";
}

/// Whether a cached description is of this very machine.
bool describesThisMachine(const DeviceDesc &device) {
  return device.title == moert::cpuModelName() &&
         device.cores == int(moert::physicalCores().size()) &&
         device.memoryBytes == moert::hostMemoryBytes() &&
         moek::hostSupports(device.isa);
}
} // namespace

StatusOr<DeviceDesc> nativeDevice() {
  std::filesystem::path path = cacheFile();
  std::error_code ignored;
  if (!path.empty() && std::filesystem::exists(path, ignored)) {
    // A damaged or foreign cache is measured anew, not reported.
    auto cached = loadTargetFile(path.string());
    if (cached.isOk() && describesThisMachine(cached->host()))
      return cached->host();
  }
  DeviceDesc device = measureDevice();
  if (path.empty())
    return device;
  std::filesystem::create_directories(path.parent_path(), ignored);
  MOE_ASSIGN_OR_RETURN(TargetDesc target, makeTarget("native", {device}));
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  if (std::ofstream out(temporary); out << toJson(target) << std::flush) {
    out.close();
    std::filesystem::rename(temporary, path, ignored);
    // As a later compile will read it: text rounds the measured doubles.
    if (auto written = loadTargetFile(path.string()); written.isOk())
      return written->host();
  }
  return device;
}

} // namespace moec
