#include "kernels/Abi.h"
#include "kernels/Activation.h"
#include "test/kernels/KernelTest.h"

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(EmbedTest, Embed);
MOE_KERNEL_SUITE(RmsNormTest, RmsNorm);
MOE_KERNEL_SUITE(QuantizeTest, Quantize);
MOE_KERNEL_SUITE(ActivationMulTest, ActivationMul);
MOE_KERNEL_SUITE(GateMulTest, GateMul);
MOE_KERNEL_SUITE(ScaleTest, Scale);
MOE_KERNEL_SUITE(AddTest, Add);
MOE_KERNEL_SUITE(CopyTest, Copy);
MOE_KERNEL_SUITE(ExpertsCombineTest, ExpertsCombine);

/// Returns an odd number of blocks; for float formats an odd number of columns.
int64_t oddCols(Format format) {
  int64_t block = formatInfo(format).blockElements;
  return block == 1 ? 77 : 3 * block;
}

/// Tests columns `begin` ... of a table of every format.
void checkEmbed(const KernelInfo &kernel, bool part) {
  for (Format format : allFormats()) {
    SCOPED_TRACE(formatInfo(format).name);
    Random random(1);
    int64_t block = formatInfo(format).blockElements, all = oddCols(format);
    int64_t begin = part ? block : 0, cols = part ? block : all;
    Weights table(format, 1, 13, all, random);
    std::vector<int32_t> tokens{12, 0, 7, 7, 1};
    Matrix<float> out(5, cols, 3);
    EmbedArgs args{tokens.data(), table.view, out.data(),
                   out.stride,    begin,      cols};
    runKernel(kernel, &args, {5, 2}, 0, {&out});
    expectClose(out, [&](int64_t t, int64_t c) {
      double x = table.at(0, tokens[size_t(t)], begin + c);
      return Wanted{x, 4 * kEps * table.largest(0, tokens[size_t(t)])};
    });
  }
}

TEST_P(EmbedTest, RowsOfEveryFormat) { checkEmbed(GetParam(), false); }

TEST_P(EmbedTest, ColumnsOfEveryFormat) { checkEmbed(GetParam(), true); }

void checkNorm(const KernelInfo &kernel, int64_t groups, int64_t cols,
               int32_t tokens, float scale, bool inPlace, bool nan = false,
               bool weighted = true, bool whole = false) {
  Random random(2);
  float eps = 1e-6f;
  Matrix<float> x(tokens, groups * cols, 5),
      weight(1, whole ? groups * cols : cols);
  x.fill(random, scale);
  if (nan)
    x.at(1, cols) = NAN;
  weight.fill(random);
  std::vector<double> before(x.data(), x.data() + x.rows * x.stride);
  Matrix<float> other(tokens, groups * cols, 1);
  Matrix<float> &out = inPlace ? x : other;
  if (inPlace)
    x.keepAsInitial();
  RmsNormArgs args{x.data(),   x.stride,   weighted ? weight.data() : nullptr,
                   out.data(), out.stride, groups,
                   whole,      cols,       eps};
  runKernel(kernel, &args, {tokens, 0}, 0, {&out});
  expectClose(out, [&](int64_t t, int64_t c) {
    const double *row = before.data() + t * x.stride;
    double squares = 0;
    for (int64_t i = c / cols * cols; i < (c / cols + 1) * cols; ++i)
      squares += row[i] * row[i];
    double y = row[c] / std::sqrt(squares / double(cols) + double(eps)) *
               (weighted ? double(weight.at(0, whole ? c : c % cols)) : 1);
    return Wanted{y, kEps * (double(cols) / 32 + 16) * std::fabs(y)};
  });
}

TEST_P(RmsNormTest, AnyShape) {
  for (bool inPlace : {false, true}) {
    checkNorm(GetParam(), 1, 2048, 3, 1, inPlace);
    checkNorm(GetParam(), 1, 1, 1, 1, inPlace);
    checkNorm(GetParam(), 5, 37, 4, 1, inPlace);
    // So small that eps has an effect.
    checkNorm(GetParam(), 1, 95, 2, 1e-4f, inPlace);
    checkNorm(GetParam(), 2, 64, 2, 1e15f, inPlace);
  }
}

TEST_P(RmsNormTest, GroupsMayHaveWeightsOfTheirOwn) {
  for (bool inPlace : {false, true})
    for (auto [groups, cols] : {std::pair{5, 37}, {3, 64}, {1, 40}})
      checkNorm(GetParam(), groups, cols, 4, 1, inPlace, false, true,
                /*whole=*/true);
}

TEST_P(RmsNormTest, WorksWithoutAWeight) {
  for (bool inPlace : {false, true}) {
    checkNorm(GetParam(), 1, 300, 1, 1, inPlace, false, /*weighted=*/false);
    checkNorm(GetParam(), 3, 37, 4, 1, inPlace, false, /*weighted=*/false);
  }
}

TEST_P(RmsNormTest, NaNStaysInItsGroup) {
  checkNorm(GetParam(), 3, 37, 2, 1, false, true);
}

/// Checks rows in both A8 encodings, part by part.
void checkQuantize(const KernelInfo &kernel, int64_t cols, int32_t tokens,
                   int32_t rowsPerToken,
                   const std::function<void(Matrix<float> &)> &change,
                   int64_t blockCols) {
  Random random(3);
  int64_t rows = tokens * rowsPerToken;
  Matrix<float> x(rows, cols, 7);
  x.fill(random);
  change(x);
  Matrix<uint8_t> out(rows, a8RowBytes(cols), 64);
  QuantizeArgs args{x.data(), x.stride,     out.data(),        out.stride,
                    cols,     rowsPerToken, int32_t(blockCols)};
  runKernel(kernel, &args, {tokens, 0}, 0, {&out});
  for (int64_t r = 0; r < rows; ++r) {
    const auto *q = reinterpret_cast<const int8_t *>(out.row(r));
    const auto *scale =
        reinterpret_cast<const float *>(out.row(r) + a8ScaleOffset(cols));
    const auto *sum =
        reinterpret_cast<const int16_t *>(out.row(r) + a8SumOffset(cols));
    for (int64_t c = 0; c < cols; ++c) {
      int64_t block = c / kA8Block;
      double most = 0;
      bool finite = true;
      int64_t first = c / blockCols * blockCols;
      for (int64_t i = first; i < std::min(first + blockCols, cols); ++i) {
        most = std::fmax(most, std::fabs(double(x.at(r, i))));
        finite &= std::isfinite(x.at(r, i));
      }
      if (!finite) {
        ASSERT_TRUE(std::isnan(scale[block]));
        ASSERT_EQ(q[c], 0);
        continue;
      }
      ASSERT_EQ(scale[block], scale[first / kA8Block]);
      ASSERT_GE(q[c], -127);
      ASSERT_NEAR(double(q[c]) * double(scale[block]), x.at(r, c),
                  most / 127 * 0.5001 + 1e-36)
          << "row " << r << ", column " << c;
    }
    for (int64_t i = 0; i < cols / 16; ++i) {
      int total = 0;
      for (int64_t c = i * 16; c < i * 16 + 16; ++c)
        total += q[c];
      ASSERT_EQ(sum[i], total) << "row " << r << ", sum " << i;
    }
  }
}

void checkQuantize(const KernelInfo &kernel, int64_t cols, int32_t tokens,
                   int32_t rowsPerToken,
                   const std::function<void(Matrix<float> &)> &change) {
  for (int64_t blockCols : {kA8Block, kA8KBlock})
    checkQuantize(kernel, cols, tokens, rowsPerToken, change, blockCols);
}

TEST_P(QuantizeTest, ValuesScalesAndSums) {
  auto keep = [](Matrix<float> &) {};
  checkQuantize(GetParam(), 480, 2, 1, keep);
  checkQuantize(GetParam(), 32, 1, 1, keep);
  checkQuantize(GetParam(), 2048, 3, 1, keep);
  checkQuantize(GetParam(), 96, 5, 6, keep);
}

TEST_P(QuantizeTest, Extremes) {
  checkQuantize(GetParam(), 160, 2, 1, [](Matrix<float> &x) {
    for (int64_t c = 0; c < 32; ++c) {
      x.at(0, c) = 0;
      x.at(0, 32 + c) *= 1e-37f;
      x.at(0, 64 + c) *= 1e37f;
      x.at(0, 96 + c) = -1;
      x.at(1, c) *= 1e-34f;
    }
  });
}

TEST_P(QuantizeTest, NaNAndInfinityPoisonTheirBlockOnly) {
  checkQuantize(GetParam(), 800, 1, 1, [](Matrix<float> &x) {
    x.at(0, 300) = NAN;
    x.at(0, 799) = INFINITY;
  });
  checkQuantize(GetParam(), 128, 2, 1, [](Matrix<float> &x) {
    x.at(0, 31) = NAN;
    x.at(0, 64) = INFINITY;
    x.at(1, 127) = -INFINITY;
  });
}

double silu(double x) { return x / (1 + std::exp(-x)); }

TEST_P(ActivationMulTest, AccurateOverTheWholeRange) {
  // Steps of 1/64 from -110 to 110: both ends of exp and all of its rounding.
  Matrix<float> gate(5, 2817), up(5, 2817), out(5, 2817);
  for (int64_t r = 0; r < 5; ++r)
    for (int64_t c = 0; c < gate.cols; ++c) {
      gate.at(r, c) = float(-110 + double(r * gate.cols + c) / 64);
      up.at(r, c) = 1;
    }
  ActivationMulArgs args{gate.data(), up.data(), out.data(), 2817, 1};
  runKernel(GetParam(), &args, {5, 0}, 0, {&out});
  expectClose(out, [&](int64_t r, int64_t c) {
    double x = silu(gate.at(r, c));
    // Beyond e^88 a float sum 1 + e^-x is infinite; the exact value is below
    // 1e-36.
    return Wanted{x, 6 * kEps * std::fabs(x) + 2e-36};
  });
}

double activationOf(Activation kind, double g, double u) {
  switch (kind) {
  case Activation::Silu:
    return silu(g) * u;
  case Activation::Gelu:
    return g * u / 2 *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
  case Activation::ClampedSwiglu:
    g = std::fmin(g, 7);
    u = std::fmax(-7, std::fmin(u, 7));
    return g / (1 + std::exp(-1.702 * g)) * (u + 1);
  case Activation::Relu:
    return std::fmax(g, 0) * u;
  case Activation::GeluErf:
    return g * std::erfc(-g / std::sqrt(2)) / 2 * u;
  }
  return NAN;
}

TEST_P(ActivationMulTest, EveryActivation) {
  for (int32_t i = 0; i < kActivationCount; ++i) {
    const auto kind = Activation(i);
    SCOPED_TRACE(i);
    Matrix<float> gate(9, 1501), up(9, 1501), out(9, 1501);
    Random random(7);
    for (int64_t r = 0; r < gate.rows; ++r)
      for (int64_t c = 0; c < gate.cols; ++c) {
        gate.at(r, c) = float(-15 + double(r * gate.cols + c) / 450);
        up.at(r, c) = random.normal(5);
      }
    gate.at(0, 0) = NAN;
    up.at(1, 1) = NAN;
    gate.at(2, 2) = 1e20f; // The cube of this number overflows a float.
    ActivationMulArgs args{gate.data(), up.data(), out.data(), 1501, 3, kind};
    runKernel(GetParam(), &args, {3, 0}, 0, {&out});
    expectClose(out, [&](int64_t r, int64_t c) {
      double g = gate.at(r, c), u = up.at(r, c);
      if (std::isnan(g) || std::isnan(u))
        return Wanted{NAN, 0};
      double x = activationOf(kind, g, u);
      // The rounding of the exponent, and errors where tanh is close to -1.
      bool isGelu = kind == Activation::Gelu || kind == Activation::GeluErf;
      double slope = isGelu ? 4 * g * g : 4 * std::fabs(g);
      return Wanted{x, (10 + slope) * kEps * std::fabs(x) +
                           2 * kEps * std::fabs(silu(g)) +
                           1e-14 * std::fabs(g * u) + 1e-36};
    });
  }
}

TEST_P(ActivationMulTest, WithoutUp) {
  Random random(11);
  for (Activation kind : {Activation::Gelu, Activation::GeluErf}) {
    Matrix<float> gate(5, 301), out(5, 301);
    gate.fill(random, 3);
    gate.at(1, 7) = NAN;
    ActivationMulArgs args{gate.data(), nullptr, out.data(), 301, 1, kind};
    runKernel(GetParam(), &args, {5, 0}, 0, {&out});
    expectClose(out, [&](int64_t r, int64_t c) {
      double g = gate.at(r, c), y = activationOf(kind, g, 1);
      return Wanted{y, (10 + 4 * g * g) * kEps * std::fabs(y) + 1e-14};
    });
  }
}

double gateOf(Gate kind, double g) {
  switch (kind) {
  case Gate::Sigmoid:
    return 1 / (1 + std::exp(-g));
  case Gate::Softplus:
    return std::fmax(g, 0) + std::log1p(std::exp(-std::fabs(g)));
  case Gate::Identity:
    return g;
  }
  return NAN;
}

void checkGate(const KernelInfo &kernel, Gate kind, int64_t cols,
               int64_t gates) {
  Random random(9);
  Matrix<float> x(5, cols), gate(5, gates), out(5, cols);
  x.fill(random);
  gate.fill(random, 30);
  gate.at(3, gates / 2) = NAN;
  GateMulArgs args{x.data(), gate.data(), out.data(), cols, gates, kind};
  runKernel(kernel, &args, {5, 0}, 0, {&out});
  expectClose(out, [&](int64_t r, int64_t c) {
    double g = gate.at(r, c / (cols / gates));
    double y = x.at(r, c) * gateOf(kind, g);
    return Wanted{y, 8 * kEps * std::fabs(y) + 1e-36};
  });
}

TEST_P(GateMulTest, EveryFunctionOfGatesOfElementsHeadsAndRows) {
  for (int32_t i = 0; i < kGateCount; ++i) {
    SCOPED_TRACE(i);
    for (auto [cols, gates] :
         {std::pair{1, 1}, {36, 36}, {36, 3}, {700, 1}, {1290, 6}, {64, 32}})
      checkGate(GetParam(), Gate(i), cols, gates);
  }
}

TEST_P(GateMulTest, GatesOfElementsAndOfRows) {
  Random random(9);
  for (int64_t cols : {1, 37, 700})
    for (bool ofRow : {false, true}) {
      Matrix<float> x(5, cols), gate(5, ofRow ? 1 : cols), out(5, cols);
      x.fill(random);
      gate.fill(random, 30);
      GateMulArgs args{x.data(), gate.data(), out.data(),
                       cols,     gate.cols,   Gate::Sigmoid};
      auto want = [&](int64_t r, int64_t c) {
        double y = x.at(r, c) / (1 + std::exp(-gate.at(r, ofRow ? 0 : c)));
        return Wanted{y, 6 * kEps * std::fabs(y) + 1e-37};
      };
      runKernel(GetParam(), &args, {5, 0}, 0, {&out});
      expectClose(out, want);
      Matrix<float> inPlace(5, cols);
      std::memcpy(inPlace.data(), x.data(), x.bytes().size());
      inPlace.keepAsInitial();
      args.x = args.out = inPlace.data();
      runKernel(GetParam(), &args, {5, 0}, 0, {&inPlace});
      EXPECT_EQ(inPlace.bytes(), out.bytes());
    }
}

TEST_P(ScaleTest, FactorsAndSoftcaps) {
  Random random(10);
  for (int64_t cols : {1, 37, 700})
    for (float cap : {0.0f, 30.0f}) {
      Matrix<float> x(5, cols), out(5, cols);
      x.fill(random, 100);
      ScaleArgs args{x.data(), out.data(), cols, -0.75f, cap, 0};
      runKernel(GetParam(), &args, {5, 0}, 0, {&out});
      expectClose(out, [&](int64_t r, int64_t c) {
        double y = -0.75 * x.at(r, c);
        // A tanh is off by an epsilon or two, which is relative to the cap.
        return cap > 0 ? Wanted{cap * std::tanh(y / cap), 4 * kEps * cap}
                       : Wanted{y, kEps * std::fabs(y)};
      });
      Matrix<float> inPlace(5, cols);
      std::memcpy(inPlace.data(), x.data(), x.bytes().size());
      inPlace.keepAsInitial();
      args.x = args.out = inPlace.data();
      runKernel(GetParam(), &args, {5, 0}, 0, {&inPlace});
      EXPECT_EQ(inPlace.bytes(), out.bytes());
    }
}

TEST_P(ScaleTest, Limits) {
  Random random(12);
  Matrix<float> x(5, 301), out(5, 301);
  x.fill(random, 4);
  x.at(0, 0) = INFINITY;
  x.at(1, 1) = NAN;
  ScaleArgs args{x.data(), out.data(), 301, 0.5f, 0, 1.5f};
  runKernel(GetParam(), &args, {5, 0}, 0, {&out});
  expectClose(out, [&](int64_t r, int64_t c) {
    double y = 0.5 * x.at(r, c);
    return Wanted{y > 1.5 ? 1.5 : y < -1.5 ? -1.5 : y, 0};
  });
}

TEST_P(ActivationMulTest, InPlaceAndOddSizes) {
  Random random(4);
  for (int64_t cols : {1, 37, 1408}) {
    Matrix<float> gate(6, cols), up(6, cols);
    gate.fill(random, 3);
    up.fill(random);
    Matrix<float> before(6, cols);
    std::memcpy(before.data(), gate.data(), gate.bytes().size());
    gate.keepAsInitial();
    ActivationMulArgs args{gate.data(), up.data(), gate.data(), cols, 2};
    runKernel(GetParam(), &args, {3, 0}, 0, {&gate});
    expectClose(gate, [&](int64_t r, int64_t c) {
      double x = silu(before.at(r, c)) * up.at(r, c);
      return Wanted{x, 8 * kEps * std::fabs(x)};
    });
  }
}

TEST_P(ActivationMulTest, InfinityAndNaN) {
  std::vector<float> gate{INFINITY, NAN, -200, 200, 0}, up(5, 1);
  Matrix<float> out(1, 5);
  ActivationMulArgs args{gate.data(), up.data(), out.data(), 5, 1};
  runKernel(GetParam(), &args, {1, 0}, 0, {&out});
  expectClose(out, [&](int64_t, int64_t c) {
    return Wanted{std::vector<double>{INFINITY, NAN, 0, 200, 0}[size_t(c)],
                  1e-30};
  });
}

TEST_P(AddTest, InPlaceAndOddSizes) {
  Random random(5);
  for (int64_t cols : {1, 77, 2048}) {
    Matrix<float> x(3, cols), y(3, cols), out(3, cols);
    x.fill(random);
    y.fill(random);
    y.keepAsInitial();
    std::vector<float> before(y.data(), y.data() + 3 * cols);
    auto want = [&](int64_t r, int64_t c) {
      double sum = double(x.at(r, c)) + before[size_t(r * cols + c)];
      return Wanted{sum, kEps * std::fabs(sum)};
    };
    AddArgs args{x.data(), y.data(), out.data(), cols};
    runKernel(GetParam(), &args, {3, 0}, 0, {&out});
    expectClose(out, want);
    args.out = y.data();
    runKernel(GetParam(), &args, {3, 0}, 0, {&y});
    expectClose(y, want);
  }
}

TEST_P(ExpertsCombineTest, WeightedSumOfChoices) {
  Random random(6);
  for (bool accumulate : {false, true})
    for (int64_t cols : {1, 77, 513, 2048}) {
      int32_t tokens = 3, topK = 6;
      Matrix<float> y(tokens * topK, cols), weights(tokens, topK);
      Matrix<float> out(tokens, cols);
      y.fill(random);
      weights.fill(random);
      out.fill(random);
      std::vector<float> before(out.data(), out.data() + tokens * cols);
      if (accumulate)
        out.keepAsInitial();
      ExpertsCombineArgs args{y.data(), weights.data(), out.data(),
                              cols,     topK,           accumulate};
      runKernel(GetParam(), &args, {tokens, 0}, 0, {&out});
      expectClose(out, [&](int64_t t, int64_t c) {
        double sum = accumulate ? before[size_t(t * cols + c)] : 0;
        double magnitude = std::fabs(sum);
        for (int64_t j = 0; j < topK; ++j) {
          double term = double(weights.at(t, j)) * y.at(t * topK + j, c);
          sum += term;
          magnitude += std::fabs(term);
        }
        return Wanted{sum, sumTolerance(topK, magnitude)};
      });
    }
}

/// Slots of experts on other devices have no effect, even if they contain a
/// NaN.
TEST_P(ExpertsCombineTest, SliceIgnoresOtherExperts) {
  Random random(7);
  int32_t tokens = 3, topK = 4, experts = 10;
  int64_t cols = 77;
  Matrix<int32_t> ids(tokens, topK);
  Matrix<float> map(1, experts);
  for (int32_t e = 0; e < experts; ++e)
    map.at(0, e) = e >= 3 && e < 7 ? float(6 - e) : -1.0f;
  for (bool byMap : {false, true}) {
    Matrix<float> y(tokens * topK, cols), weights(tokens, topK);
    Matrix<float> out(tokens, cols);
    y.fill(random);
    weights.fill(random);
    auto isHere = [&](int64_t t, int64_t j) {
      return ids.at(t, j) >= 3 && ids.at(t, j) < 7;
    };
    for (int32_t t = 0; t < tokens; ++t)
      for (int32_t j = 0; j < topK; ++j) {
        ids.at(t, j) = (3 * t + 2 * j + 1) % experts;
        for (int64_t c = 0; c < cols && !isHere(t, j); ++c)
          y.at(t * topK + j, c) = NAN;
      }
    ExpertsCombineArgs args{
        y.data(),   weights.data(),
        out.data(), cols,
        topK,       false,
        ids.data(), {byMap ? map.data() : nullptr, byMap ? 0 : 3, 4}};
    runKernel(GetParam(), &args, {tokens, 0}, 0, {&out});
    expectClose(out, [&](int64_t t, int64_t c) {
      double sum = 0, magnitude = 0;
      for (int64_t j = 0; j < topK; ++j)
        if (isHere(t, j)) {
          double term = double(weights.at(t, j)) * y.at(t * topK + j, c);
          sum += term;
          magnitude += std::fabs(term);
        }
      return Wanted{sum, sumTolerance(topK, magnitude)};
    });
  }
}

// Whole shares and a tail, with bytes per token and with fixed bytes.
TEST_P(CopyTest, BytesAreKept) {
  for (int32_t tokens : {1, 3, 41}) {
    SCOPED_TRACE(tokens);
    Random random(5);
    Matrix<float> x(tokens + 1, 301), out(tokens + 1, 301);
    x.fill(random);
    x.at(0, 7) = NAN;
    CopyArgs args{reinterpret_cast<const uint8_t *>(x.data()),
                  reinterpret_cast<uint8_t *>(out.data()), 301 * 4, 301 * 4};
    runKernel(GetParam(), &args, {tokens, 0}, 0, {&out});
    EXPECT_EQ(std::memcmp(x.data(), out.data(), size_t(tokens + 1) * 301 * 4),
              0);
  }
}

} // namespace
