//===- Bench.cpp - What CUDA kernels reach on this machine's GPU ----------===//
//
// cuda_bench [NAME]: rows of a table for test/bench/README.md, of kernels whose
// name holds NAME. Weights are as many copies as do not fit L2, so that each is
// read from memory; a graph of launches is timed, the median of its runs
// counts.
//
//===----------------------------------------------------------------------===//

#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "test/kernels/cuda/Gpu.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <random>

using namespace moek;
using namespace moek::test;

namespace {

/// Bytes that do not fit any GPU's L2.
constexpr int64_t kBeyondL2 = int64_t(512) << 20;
constexpr int kRepeats = 15;

struct Bench {
  Gpu &gpu;
  std::string filter = {};
  uint64_t noise = 0; ///< Random bytes on the GPU.
  std::vector<uint64_t> allocated = {};

  /// Random bytes; of floats and halves the exponents are small.
  uint64_t random(int64_t bytes) {
    static std::vector<uint8_t> pattern = [] {
      std::mt19937 engine(1);
      std::vector<uint8_t> p(1 << 24);
      for (uint8_t &b : p)
        b = uint8_t(engine()) & 0x37;
      return p;
    }();
    uint64_t address = empty(bytes);
    for (int64_t at = 0; at < bytes; at += int64_t(pattern.size()))
      gpu.copyIn(
          address + uint64_t(at), pattern.data(),
          size_t(std::min<int64_t>(bytes - at, int64_t(pattern.size()))));
    return address;
  }
  uint64_t empty(int64_t bytes) {
    allocated.push_back(gpu.allocate(size_t(bytes), "bench"));
    return allocated.back();
  }
  template <class T> uint64_t upload(const std::vector<T> &values) {
    uint64_t address = empty(int64_t(values.size() * sizeof(T)));
    gpu.copyIn(address, values.data(), values.size() * sizeof(T));
    return address;
  }
  void freeAll() {
    for (uint64_t address : allocated)
      gpu.free(address);
    allocated.clear();
  }
  cuda::LaunchContext context(int32_t tokens, int32_t position) {
    cuda::Step step{};
    step.tokens = tokens;
    step.sequences = 1;
    step.sequence[0] = {0, tokens, position, 0, nullptr};
    cuda::LaunchContext c;
    c.maxTokens = tokens;
    c.maxPositions = position + tokens;
    c.form = {Encoding::A8, Layout::Rows16};
    c.arch = gpu.arch();
    c.multiprocessors = gpu.multiprocessors();
    c.step = reinterpret_cast<const cuda::Step *>(
        upload(std::vector<cuda::Step>{step}));
    return c;
  }
  bool wants(const std::string &name) const {
    return name.find(filter) != std::string::npos;
  }
  double time(const std::vector<cuda::Launch> &launches) {
    return gpu.time(launches, GpuTest::get().imagesOf(launches), kRepeats);
  }
};

template <class T> T *at(uint64_t address) {
  return reinterpret_cast<T *>(address);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char &c : result)
    c = char(std::tolower(c));
  return result;
}

constexpr Format kPacked[] = {Format::Q2_K, Format::Q3_K,   Format::IQ4_XS,
                              Format::Q4_0, Format::IQ4_NL, Format::Q4_K,
                              Format::Q4_1, Format::Q5_0,   Format::Q5_K,
                              Format::Q5_1, Format::Q6_K,   Format::Q8_0};

/// One product of `tokens` rows with [rows, cols]; seconds, without what the
/// graph takes.
void linear(Bench &b, Format format, int64_t rows, int64_t cols,
            int32_t tokens) {
  std::string name =
      fmt::format("linear {} {}x{} T={}", lower(formatInfo(format).name), rows,
                  cols, tokens);
  if (!b.wants(name))
    return;
  auto row = int64_t(rowBytes(format, uint64_t(cols)));
  int64_t bytes = row * rows;
  int64_t copies = tokens > 64 ? 4 : std::max<int64_t>(4, kBeyondL2 / bytes);
  uint64_t w = b.random(bytes * copies);
  uint64_t act = b.random(tokens * a8RowBytes(cols));
  uint64_t out = b.empty(tokens * rows * 4);
  cuda::LaunchContext context = b.context(tokens, 0);
  std::vector<cuda::Launch> launches;
  for (int64_t i = 0; i < copies; ++i) {
    LinearArgs args{at<uint8_t>(act),
                    a8RowBytes(cols),
                    {at<uint8_t>(w + uint64_t(i * bytes)), 1, rows, cols, bytes,
                     row, format},
                    nullptr,
                    nullptr,
                    at<float>(out),
                    rows,
                    false};
    for (cuda::Launch &launch : launchesOf(OpCode::Linear, &args, context))
      launches.push_back(launch);
  }
  double seconds = b.time(launches) / double(copies);
  double macs = double(rows) * double(cols) * tokens;
  fmt::print("{:40} {:9.2f} us {:8.1f} GB/s {:8.2f} TOPS\n", name,
             seconds * 1e6, double(bytes) / seconds / 1e9,
             2 * macs / seconds / 1e12);
  std::fflush(stdout);
  b.freeAll();
}

/// gate, up and SiLU of `slots` experts of one token, or in prefill of many.
void experts(Bench &b, Format format, int32_t experts, int64_t rows,
             int64_t cols, int32_t topK, int32_t tokens) {
  std::string name =
      fmt::format("experts gate+up {} {}x{}x{} T={}",
                  lower(formatInfo(format).name), topK, rows, cols, tokens);
  if (!b.wants(name))
    return;
  auto row = int64_t(rowBytes(format, uint64_t(cols)));
  int64_t each = row * rows;
  uint64_t gate = b.random(each * experts), up = b.random(each * experts);
  uint64_t act = b.random(tokens * a8RowBytes(cols));
  uint64_t out = b.empty(int64_t(tokens) * topK * rows * 4);
  cuda::LaunchContext context = b.context(tokens, 0);
  std::vector<cuda::Launch> launches;
  int copies = tokens > 64 ? 3 : 16;
  for (int i = 0; i < copies; ++i) {
    std::vector<std::vector<int32_t>> lists(size_t(experts),
                                            std::vector<int32_t>{});
    for (int32_t t = 0; t < tokens; ++t)
      for (int32_t j = 0; j < topK; ++j) // Distinct, and others in each copy.
        lists[size_t((i * topK + t * 7 + j * 11) % experts)].push_back(
            t * topK + j);
    std::vector<int32_t> offsets{0}, slots;
    for (const auto &list : lists) {
      slots.insert(slots.end(), list.begin(), list.end());
      offsets.push_back(int32_t(slots.size()));
    }
    ExpertsGateUpArgs args{
        at<uint8_t>(act),
        a8RowBytes(cols),
        {at<uint8_t>(gate), experts, rows, cols, each, row, format},
        {at<uint8_t>(up), experts, rows, cols, each, row, format},
        nullptr,
        nullptr,
        at<int32_t>(b.upload(offsets)),
        at<int32_t>(b.upload(slots)),
        at<float>(out),
        rows,
        topK};
    for (cuda::Launch &launch :
         launchesOf(OpCode::ExpertsGateUp, &args, context))
      launches.push_back(launch);
  }
  double seconds = b.time(launches) / copies;
  int64_t touched = std::min<int64_t>(experts, int64_t(tokens) * topK);
  fmt::print("{:40} {:9.2f} us {:8.1f} GB/s {:8.2f} TOPS\n", name,
             seconds * 1e6, double(2 * touched * each) / seconds / 1e9,
             4.0 * double(rows) * double(cols) * tokens * topK / seconds /
                 1e12);
  std::fflush(stdout);
  b.freeAll();
}

/// Attention on the latent cache with the combination of its spans.
void latent(Bench &b, KvType type, int32_t heads, int32_t position,
            int32_t splits) {
  constexpr int32_t kLatent = 512, kRope = 64, kWidth = kLatent + kRope;
  std::string name = fmt::format("latent {} heads={} context={} splits={}",
                                 kvTypeName(type), heads, position, splits);
  if (!b.wants(name))
    return;
  int64_t capacity = (position + 64) / 64 * 64;
  int64_t bytes = kvBytes(type, kWidth, capacity);
  int64_t copies = std::max<int64_t>(2, kBeyondL2 / 4 / bytes);
  uint64_t cache = b.random(bytes * copies);
  uint64_t q = b.random(heads * kWidth * 4);
  uint64_t spans = b.empty(int64_t(splits) * heads * (kLatent + 2) * 4);
  uint64_t out = b.empty(heads * kLatent * 4);
  cuda::LaunchContext context = b.context(1, position - 1);
  std::vector<cuda::Launch> launches;
  for (int64_t i = 0; i < copies; ++i) {
    LatentAttentionArgs args{at<float>(q),
                             heads * kWidth,
                             {at<uint8_t>(cache + uint64_t(i * bytes)), kWidth,
                              capacity, kvRowBytes(type, kWidth), type},
                             at<float>(spans),
                             int64_t(heads) * (kLatent + 2),
                             heads,
                             kLatent,
                             kRope,
                             splits,
                             0.1f};
    LatentCombineArgs combine{at<float>(spans),
                              int64_t(heads) * (kLatent + 2),
                              at<float>(out),
                              heads * kLatent,
                              heads,
                              kLatent,
                              splits};
    for (cuda::Launch &launch :
         launchesOf(OpCode::LatentAttention, &args, context))
      launches.push_back(launch);
    for (cuda::Launch &launch :
         launchesOf(OpCode::LatentCombine, &combine, context))
      launches.push_back(launch);
  }
  double seconds = b.time(launches) / double(copies);
  double used = double(kvRowBytes(type, kWidth)) * position;
  double flops = 2.0 * heads * position * (kWidth + kLatent);
  fmt::print("{:40} {:9.2f} us {:8.1f} GB/s {:8.2f} TFLOPS\n", name,
             seconds * 1e6, used / seconds / 1e9, flops / seconds / 1e12);
  std::fflush(stdout);
  b.freeAll();
}

/// What a graph adds for each of its nodes: an instruction of a few elements.
void node(Bench &b) {
  if (!b.wants("node"))
    return;
  uint64_t x = b.random(1024);
  cuda::LaunchContext context = b.context(1, 0);
  AddArgs args{at<float>(x), at<float>(x), at<float>(x), 32};
  std::vector<cuda::Launch> launches;
  for (int i = 0; i < 1000; ++i)
    launches.push_back(launchesOf(OpCode::Add, &args, context)[0]);
  fmt::print("{:40} {:9.2f} us\n", "node", b.time(launches) * 1e3);
  b.freeAll();
}

/// Reads memory as fast as copies do, which read and write.
void copy(Bench &b) {
  if (!b.wants("copy"))
    return;
  constexpr int64_t kBytes = int64_t(1) << 30;
  uint64_t from = b.random(kBytes), to = b.empty(kBytes);
  cuda::LaunchContext context = b.context(1, 0);
  CopyArgs args{at<uint8_t>(from), at<uint8_t>(to), 0, kBytes};
  double seconds = b.time(launchesOf(OpCode::Copy, &args, context));
  fmt::print("{:40} {:9.2f} us {:8.1f} GB/s read and written\n", "copy",
             seconds * 1e6, 2 * double(kBytes) / seconds / 1e9);
  b.freeAll();
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
  for (Format format : kPacked)
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
