//===- KernelTest.cpp - Kernels compiled by NVRTC -------------------------===//
//
// Compiles kernels/*.cu with NVRTC (skipped if there is none) for several
// architectures, whose PTX differs in style, and compares results with sums in
// binary64, under every schedule.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Image.h"
#include "test/softgpu/PtxTest.h"
#include "test/softgpu/TestNvrtc.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace softgpu {
namespace {

class KernelTest : public PtxTest {
protected:
  void SetUp() override {
    if (!nvrtc.isThere())
      GTEST_SKIP() << "no libnvrtc.so.13 or .12";
    gpu.options().arch = 120;
  }
  /// Returns the architectures that the GPU can run.
  std::vector<int> onThisGpu(std::vector<int> archs) {
    if (isOnDriver())
      std::erase_if(archs,
                    [](int arch) { return arch > TestGpu::driver()->arch(); });
    return archs;
  }
  const Kernel &compiled(const std::string &file, const std::string &name,
                         int arch) {
    return loadText(
        nvrtc.compile(std::string(MOE_SOFTGPU_KERNELS) + "/" + file, arch).ptx,
        name);
  }
  std::vector<float> randoms(size_t count, float scale = 1) {
    std::vector<float> out(count);
    for (float &x : out)
      x = (float(int(random() % 20001) - 10000) / 10000) * scale;
    return out;
  }
  std::vector<int8_t> bytes(size_t count) {
    std::vector<int8_t> out(count);
    for (int8_t &x : out)
      x = int8_t(random() % 255 - 127);
    return out;
  }
  /// Runs `body` under each schedule; its results must have the same bits.
  template <class F> auto underEverySchedule(F body) {
    auto first = body();
    for (auto [schedule, landing] :
         {std::pair{Schedule::Reversed, AsyncLanding::Early},
          {Schedule::Shuffled, AsyncLanding::Seeded}}) {
      gpu.options().schedule = schedule;
      gpu.options().asyncLanding = landing;
      EXPECT_EQ(body(), first);
    }
    gpu.options().schedule = Schedule::Forward;
    gpu.options().asyncLanding = AsyncLanding::Late;
    return first;
  }

  Nvrtc nvrtc;
  std::mt19937 random{5};
};

TEST_F(KernelTest, ImagesNameTheirArchitecture) {
  for (int arch : {75, 80, 86, 89, 90, 100, 120}) {
    auto output =
        nvrtc.compile(std::string(MOE_SOFTGPU_KERNELS) + "/gemv.cu", arch);
    auto cubin = identifyImage(output.cubin), ptx = identifyImage(output.ptx);
    ASSERT_TRUE(cubin.isOk() && ptx.isOk()) << cubin.status().message();
    EXPECT_EQ(cubin->kind, ImageKind::Cubin);
    EXPECT_EQ(cubin->arch, arch);
    EXPECT_EQ(ptx->kind, ImageKind::Ptx);
    EXPECT_EQ(ptx->arch, arch);
  }
}

TEST_F(KernelTest, Gemv) {
  for (int arch : onThisGpu({75, 80, 120})) {
    const Kernel &k = compiled("gemv.cu", "gemv", arch);
    int rows = 37, columns = 1056;
    auto w = bytes(size_t(rows) * columns), x = bytes(columns);
    auto s = randoms(size_t(rows) * columns / 32), xs = randoms(columns / 32);
    uint64_t dw = upload(w), ds = upload(s), dx = upload(x), dxs = upload(xs);
    Counters counters;
    auto y = underEverySchedule([&] {
      uint64_t out = gpu.memory().allocate(rows * 4, "y");
      LaunchShape shape{{uint32_t(rows + 3) / 4, 1, 1}, {128, 1, 1}, 0};
      LaunchResult result =
          gpu.run(k, shape, dw, ds, dx, dxs, out, rows, columns);
      EXPECT_TRUE(isClean(result));
      counters = result.counters;
      return download<float>(out, rows);
    });
    for (int r = 0; r < rows; ++r) {
      double sum = 0, norm = 0;
      for (int i = 0; i < columns; ++i) {
        double term = double(w[size_t(r) * columns + i]) * x[i] *
                      s[(size_t(r) * columns + i) / 32] * xs[i / 32];
        sum += term, norm += std::fabs(term);
      }
      EXPECT_NEAR(y[r], sum, norm * 1e-6);
    }
    if (isOnDriver())
      continue;
    // Per row: 66 pieces are 3 requests of w and of x, 2 of each kind of
    // scales.
    EXPECT_EQ(counters[OpClass::DotProduct], uint64_t(rows) * 3 * 4);
    EXPECT_EQ(counters[OpClass::Shuffle], uint64_t(rows) * 5);
    EXPECT_EQ(counters.globalLoads.requests, uint64_t(rows) * 3 * 4);
    EXPECT_LE(counters.globalLoads.movedOverUseful(), 1.05);
  }
}

TEST_F(KernelTest, Gemm) {
  for (int arch : onThisGpu({80, 120})) {
    const Kernel &k = compiled("gemm.cu", "gemm", arch);
    int m = 70, n = 75, depth = 192;
    auto a = bytes(size_t(m) * depth), b = bytes(size_t(n) * depth);
    uint64_t da = upload(a), db = upload(b);
    Counters counters;
    auto c = underEverySchedule([&] {
      uint64_t out = gpu.memory().allocate(size_t(m) * n * 4, "c");
      LaunchResult result =
          gpu.run(k, {{2, 2, 1}, {128, 1, 1}, 0}, da, db, out, m, n, depth);
      EXPECT_TRUE(isClean(result));
      counters = result.counters;
      return download<int32_t>(out, size_t(m) * n);
    });
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        int sum = 0;
        for (int d = 0; d < depth; ++d)
          sum += int(a[size_t(i) * depth + d]) * b[size_t(j) * depth + d];
        ASSERT_EQ(c[size_t(i) * n + j], sum) << i << " " << j;
      }
    if (isOnDriver())
      continue;
    EXPECT_EQ(counters.macs, uint64_t(128) * 128 * depth);
    EXPECT_EQ(counters.matrixLoads.conflicts(), 0u);
    EXPECT_EQ(counters.sharedStores.conflicts(), 0u);
    // Padding rows and columns are zero.
    EXPECT_NEAR(double(counters.usefulMacs) / counters.macs,
                70.0 * 75 / 128 / 128, 0.02);
  }
}

/// Converts to f16 by rounding to ten bits; values here are small and normal.
uint16_t halfBits(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7FFFFFFF) < 0x38800000)
    return 0;
  uint32_t rounded = bits + 0xFFF + (bits >> 13 & 1);
  return uint16_t((rounded >> 16 & 0x8000) |
                  (((rounded & 0x7FFFFFFF) >> 13) - (112 << 10)));
}
double halfValue(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  return exponent ? std::ldexp(1024 + (bits & 1023), exponent - 25) *
                        (bits & 0x8000 ? -1 : 1)
                  : 0;
}

TEST_F(KernelTest, Attention) {
  for (int arch : onThisGpu({80, 120}))
    for (MmaSum mmaSum : {MmaSum::Native, MmaSum::PlainF32})
      for (ApproxError error : {ApproxError::Low, ApproxError::High}) {
        gpu.options().mmaSum = mmaSum;
        gpu.options().approxError = error;
        const Kernel &k = compiled("attention.cu", "attention", arch);
        int queries = 32, keys = 80;
        auto halves = [&](int rows) {
          std::vector<uint16_t> out(size_t(rows) * 64);
          for (uint16_t &x : out)
            x = halfBits(randoms(1)[0]);
          return out;
        };
        auto q = halves(queries), key = halves(keys), v = halves(keys);
        float scale = 0.125f * 1.442695f;
        uint64_t dq = upload(q), dk = upload(key), dv = upload(v);
        auto out = underEverySchedule([&] {
          uint64_t o = gpu.memory().allocate(size_t(queries) * 256, "out");
          EXPECT_TRUE(isClean(
              gpu.run(k, {{uint32_t(queries) / 16, 1, 1}, {32, 1, 1}, 0}, dq,
                      dk, dv, o, keys, scale)));
          return download<float>(o, size_t(queries) * 64);
        });
        for (int i = 0; i < queries; ++i) {
          std::vector<double> p(keys);
          double total = 0;
          for (int j = 0; j < keys; ++j) {
            double dot = 0;
            for (int d = 0; d < 64; ++d)
              dot += halfValue(q[i * 64 + d]) * halfValue(key[j * 64 + d]);
            total += p[j] = std::exp2(dot * scale);
          }
          for (int d = 0; d < 64; ++d) {
            double sum = 0;
            for (int j = 0; j < keys; ++j)
              sum += p[j] * halfValue(v[j * 64 + d]) / total;
            ASSERT_NEAR(out[i * 64 + d], sum, 1e-3)
                << i << " " << d; // P has F16 values.
          }
        }
      }
}

TEST_F(KernelTest, RmsNorm) {
  const Kernel &k = compiled("rows.cu", "rmsNorm", 80);
  int rows = 3, columns = 700;
  auto x = randoms(size_t(rows) * columns), weight = randoms(columns);
  uint64_t dx = upload(x), dw = upload(weight),
           out = gpu.memory().allocate(x.size() * 4, "out");
  float epsilon = 1e-5f;
  ASSERT_TRUE(isClean(gpu.run(k, {{uint32_t(rows), 1, 1}, {256, 1, 1}, 0}, dx,
                              dw, out, columns, epsilon)));
  auto y = download<float>(out, x.size());
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int i = 0; i < columns; ++i)
      sum += double(x[r * columns + i]) * x[r * columns + i];
    for (int i = 0; i < columns; ++i)
      ASSERT_NEAR(y[r * columns + i],
                  x[r * columns + i] * weight[i] /
                      std::sqrt(sum / columns + epsilon),
                  1e-5);
  }
}

TEST_F(KernelTest, RouterAndGroups) {
  for (int arch : onThisGpu({80, 120})) {
    const Kernel &router = compiled("rows.cu", "router", arch);
    const Kernel &group = compiled("rows.cu", "group", arch);
    int tokens = 45, top = 6, slots = tokens * top;
    auto logits = randoms(size_t(tokens) * 64, 4);
    logits[5] = logits[6]; // Two equal logits.
    uint64_t dl = upload(logits), ids = gpu.memory().allocate(slots * 4, "ids");
    uint64_t weights = gpu.memory().allocate(slots * 4, "weights");
    ASSERT_TRUE(isClean(
        gpu.run(router, {{uint32_t(tokens + 3) / 4, 1, 1}, {128, 1, 1}, 0}, dl,
                ids, weights, tokens, top)));
    auto chosen = download<int32_t>(ids, slots);
    auto mass = download<float>(weights, slots);
    for (int t = 0; t < tokens; ++t) {
      std::vector<int> order(64);
      std::iota(order.begin(), order.end(), 0);
      const float *x = &logits[t * 64];
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return x[a] > x[b]; });
      double sum = 0;
      for (int e = 0; e < 64; ++e)
        sum += std::exp(double(x[e]));
      for (int s = 0; s < top; ++s) {
        EXPECT_EQ(chosen[t * top + s], order[s]);
        EXPECT_NEAR(mass[t * top + s], std::exp(double(x[order[s]])) / sum,
                    1e-5);
      }
    }
    auto places = underEverySchedule([&] {
      uint64_t order = gpu.memory().allocate(slots * 4, "order");
      uint64_t starts = gpu.memory().allocate(65 * 4, "starts");
      EXPECT_TRUE(isClean(gpu.run(group, {{1, 1, 1}, {256, 1, 1}, 0}, ids,
                                  order, starts, slots)));
      return download<int32_t>(order, slots);
    });
    std::vector<int32_t> want(slots);
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(),
                     [&](int a, int b) { return chosen[a] < chosen[b]; });
    EXPECT_EQ(places, want);
  }
}

} // namespace
} // namespace softgpu
