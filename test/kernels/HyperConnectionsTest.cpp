// Hyper-connections, compressed entries and hash routing compared with float64.
#include "kernels/Entries.h"
#include "test/kernels/KernelTest.h"

#include <algorithm>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(HyperWeightsTest, HyperWeights);
MOE_KERNEL_SUITE(HyperCollapseTest, HyperCollapse);
MOE_KERNEL_SUITE(HyperSpreadTest, HyperSpread);
MOE_KERNEL_SUITE(CompressTest, Compress);
MOE_KERNEL_SUITE(EntryStoreTest, EntryStore);
MOE_KERNEL_SUITE(ClampedMulTest, ClampedMul);
MOE_KERNEL_SUITE(HashRouterTest, HashRouter);

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

using Mix = std::vector<std::vector<double>>; ///< Indices: [from][to].

/// Computes the mix by its definition: normalises rows, then columns,
/// repeatedly.
Mix mixOf(const std::vector<double> &logits, int n, int iterations,
          double eps) {
  Mix mix;
  for (int from = 0; from < n; ++from) {
    double sum = 0;
    mix.emplace_back();
    for (int to = 0; to < n; ++to)
      sum += std::exp(logits[size_t(from * n + to)]);
    for (int to = 0; to < n; ++to)
      mix[size_t(from)].push_back(
          std::exp(logits[size_t(from * n + to)]) / sum + eps);
  }
  auto divide = [&](bool rows) {
    Mix sums = mix;
    for (int i = 0; i < n; ++i) {
      double sum = eps;
      for (int j = 0; j < n; ++j)
        sum += rows ? sums[size_t(i)][size_t(j)] : sums[size_t(j)][size_t(i)];
      for (int j = 0; j < n; ++j)
        (rows ? mix[size_t(i)][size_t(j)] : mix[size_t(j)][size_t(i)]) /= sum;
    }
  };
  divide(false);
  for (int i = 1; i < iterations; ++i) {
    divide(true);
    divide(false);
  }
  return mix;
}

TEST_P(HyperWeightsTest, ReadsWritesAndMixes) {
  Random random(1);
  for (auto [n, iterations, whole] : {std::tuple{4, 20, true},
                                      {3, 1, true},
                                      {8, 2, true},
                                      {4, 1, false},
                                      {1, 3, true}}) {
    int64_t cols = whole ? n * (n + 2) : n;
    const float eps = 1e-3f;
    Matrix<float> x(6, cols, 2), out(6, cols, 3);
    Matrix<float> scale(1, whole ? 3 : 1), base(1, cols);
    x.fill(random, 3);
    scale.fill(random);
    base.fill(random);
    HyperWeightsArgs args{x.data(),   x.stride,   scale.data(), base.data(),
                          out.data(), out.stride, cols,         n,
                          iterations, eps};
    runKernel(GetParam(), &args, {6, 0}, 0, {&out});
    for (int64_t t = 0; t < 6; ++t) {
      auto logit = [&](int64_t i, int part) {
        return double(x.at(t, i)) * double(scale.at(0, part)) +
               double(base.at(0, i));
      };
      std::vector<double> logits;
      for (int64_t i = 2 * n; i < cols; ++i)
        logits.push_back(logit(i, 2));
      Mix mix;
      if (whole)
        mix = mixOf(logits, n, iterations, double(eps));
      for (int64_t i = 0; i < cols; ++i) {
        double want = i < n       ? sigmoid(logit(i, 0)) + double(eps)
                      : i < 2 * n ? 2 * sigmoid(logit(i, 1))
                                  : mix[size_t(i / n - 2)][size_t(i % n)];
        ASSERT_NEAR(out.at(t, i), want, 4 * kEps * want) << t << ", " << i;
      }
    }
  }
}

TEST_P(HyperCollapseTest, WeightedSumOfStreams) {
  Random random(2);
  for (auto [n, cols] : {std::pair{4, 40}, {3, 1}, {1, 515}, {8, 1030}}) {
    Matrix<float> x(5, n * cols, 3), weights(5, n * (n + 2)), out(5, cols, 2);
    x.fill(random);
    weights.fill(random);
    const bool isMean = cols % 2 == 0;
    HyperCollapseArgs args{
        x.data(),       x.stride,   isMean ? nullptr : weights.data(),
        weights.stride, out.data(), out.stride,
        cols,           n};
    runKernel(GetParam(), &args, {5, 0}, 0, {&out});
    expectClose(out, [&, n = n, cols = cols](int64_t t, int64_t c) {
      double sum = 0, magnitude = 0;
      for (int64_t i = 0; i < n; ++i) {
        double weight = isMean ? 1 / double(n) : double(weights.at(t, i));
        double term = weight * double(x.at(t, i * cols + c));
        sum += term, magnitude += std::fabs(term);
      }
      return Wanted{sum, sumTolerance(n, magnitude)};
    });
  }
}

TEST_P(HyperSpreadTest, MixesAndWritesStreams) {
  Random random(3);
  for (auto [n, cols] : {std::pair{4, 40}, {3, 1}, {1, 515}, {8, 1030}})
    for (bool mixes : {true, false}) {
      Matrix<float> y(5, cols, 1), x(5, n * cols, 3);
      Matrix<float> weights(5, n * (n + 2)), out(5, n * cols, 2);
      y.fill(random);
      x.fill(random);
      weights.fill(random);
      HyperSpreadArgs args{y.data(),
                           y.stride,
                           mixes ? x.data() : nullptr,
                           x.stride,
                           mixes ? weights.data() : nullptr,
                           weights.stride,
                           out.data(),
                           out.stride,
                           cols,
                           n};
      runKernel(GetParam(), &args, {5, 0}, 0, {&out});
      expectClose(out, [&, n = n, cols = cols](int64_t t, int64_t column) {
        int64_t to = column / cols, c = column % cols;
        if (!mixes)
          return Wanted{y.at(t, c), 0};
        double sum = weights.at(t, n + to) * double(y.at(t, c));
        double magnitude = std::fabs(sum);
        for (int64_t i = 0; i < n; ++i) {
          double term =
              weights.at(t, 2 * n + i * n + to) * double(x.at(t, i * cols + c));
          sum += term, magnitude += std::fabs(term);
        }
        return Wanted{sum, sumTolerance(n + 1, magnitude)};
      });
    }
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

/// One sequence's kv and gates from its first token on, and the results in
/// steps of given sizes.
struct Compressing {
  Compressing(int64_t cols, int32_t ratio, bool overlap, int64_t tokens)
      : cols(cols), width(overlap ? 2 * cols : cols), ratio(ratio),
        overlap(overlap), kv(tokens, width, 3), gate(tokens, width, 1),
        ape(ratio, width), out(tokens, cols, 2),
        states(3, compressStateWidth(cols, overlap)) {
    Random random(uint32_t(cols + ratio));
    kv.fill(random);
    gate.fill(random, 3);
    ape.fill(random);
    states.keepAsInitial(); // The row may contain anything, even poison.
  }

  CompressArgs args() {
    return {kv.data(),
            gate.data(),
            kv.stride,
            gate.stride,
            ape.data(),
            {reinterpret_cast<uint8_t *>(states.data()), states.cols,
             states.rows, states.stride * 4, KvType::F32},
            out.data(),
            out.stride,
            cols,
            ratio,
            overlap};
  }

  /// Computes entry `e` by its definition.
  double entry(int64_t e, int64_t c) const {
    double total = 0, sum = 0;
    auto add = [&](int64_t block, int64_t column) {
      for (int64_t j = 0; j < ratio && block >= 0; ++j) {
        int64_t t = block * ratio + j;
        double w =
            std::exp(double(gate.at(t, column)) + double(ape.at(j, column)));
        total += w, sum += w * double(kv.at(t, column));
      }
    };
    add(e, width - cols + c);
    if (overlap)
      add(e - 1, c);
    return sum / total;
  }
  void expectEntries() const {
    for (int64_t e = 0; (e + 1) * ratio <= out.rows; ++e)
      for (int64_t c = 0; c < cols; ++c)
        ASSERT_NEAR(out.at((e + 1) * ratio - 1, c), entry(e, c),
                    kEps * 8 * double(ratio + 8))
            << "entry " << e << ", column " << c;
  }

  int64_t cols, width;
  int32_t ratio;
  bool overlap;
  Matrix<float> kv, gate, ape, out, states;
};

TEST_P(CompressTest, EntriesOfAPrompt) {
  for (auto [cols, ratio, overlap] : {std::tuple{32, 4, true},
                                      {37, 3, false},
                                      {16, 128, false},
                                      {5, 1, true}}) {
    SCOPED_TRACE(testing::Message() << cols << ", ratio " << ratio);
    Compressing c(cols, ratio, overlap, 2 * ratio + 9);
    CompressArgs args = c.args();
    SequenceRows rows{0, int32_t(c.out.rows), 0, nullptr, 1};
    runKernel(GetParam(), &args, {rows.count, 0, &rows, 1}, 0,
              {&c.out, &c.states});
    c.expectEntries();
  }
}

TEST_P(CompressTest, AMeanWithoutGates) {
  Compressing c(37, 4, false, 30);
  std::fill_n(c.gate.data(), c.gate.rows * c.gate.stride, 0.0f);
  std::fill_n(c.ape.data(), c.ape.rows * c.ape.stride, 0.0f);
  CompressArgs args = c.args();
  args.gate = args.ape = nullptr;
  SequenceRows rows{0, 30, 0, nullptr, 1};
  runKernel(GetParam(), &args, {30, 0, &rows, 1}, 0, {&c.out, &c.states});
  c.expectEntries();
}

// A whole prompt gives the same bits as its tokens one after the other.
TEST_P(CompressTest, StepsOfAnySizeGiveTheSameBits) {
  Compressing whole(37, 4, true, 30), parts(37, 4, true, 30);
  CompressArgs args = whole.args();
  SequenceRows all{0, 30, 0, nullptr, 2};
  runKernel(GetParam(), &args, {30, 0, &all, 1}, 0,
            {&whole.out, &whole.states});
  int32_t position = 0;
  for (int32_t count : {1, 5, 1, 1, 2, 9, 11}) {
    CompressArgs part = parts.args();
    part.kv += position * part.kvStride;
    part.gate += position * part.gateStride;
    part.out += position * part.outStride;
    SequenceRows rows{0, count, position, nullptr, 2};
    runOnce(GetParam(), &part, {count, position, &rows, 1}, 0);
    position += count;
  }
  for (int64_t t = 3; t < 30; t += 4)
    ASSERT_EQ(std::memcmp(whole.out.row(t), parts.out.row(t), 37 * 4), 0) << t;
  EXPECT_EQ(std::memcmp(whole.states.row(2), parts.states.row(2), 9 * 37 * 4),
            0);
  parts.expectEntries();
}

void expectEntriesStored(const KernelInfo &kernel, int32_t tail, bool neox) {
  Random random(4);
  const int32_t ratio = 4, dim = 6;
  const int64_t cols = 70;
  const float invFreq[] = {1, 0.3f, 0.01f}, eps = 1e-3f;
  const std::vector<int32_t> pages = {2, 0};
  SequenceRows rows{0, 30, 50, pages.data()};
  for (KvType type : kKvTypes) {
    Matrix<float> x(30, cols, 3), weight(1, cols);
    x.fill(random);
    weight.fill(random);
    Cache cache(type, cols, 3 * kKvPage, 3 * kKvPage, random);
    Cache before(type, cols, 3 * kKvPage, 0, random);
    std::memcpy(before.memory.data(), cache.memory.data(),
                cache.memory.bytes().size());
    EntryStoreArgs args{x.data(),   x.stride, weight.data(), invFreq,
                        cache.view, cols,     dim,           ratio,
                        eps,        tail,     neox};
    runKernel(kernel, &args, {30, 50, &rows, 1}, 0, {&cache.memory});
    for (int64_t p = 0; p < 2 * kKvPage; ++p) {
      int64_t row = pages[size_t(p / kKvPage)] * kKvPage + p % kKvPage;
      if (p < 50 || p >= 80 || (p + 1) % ratio != 0) {
        ASSERT_EQ(cache.rowBytes(row), before.rowBytes(row)) << p;
        continue;
      }
      double squares = 0;
      for (int64_t c = 0; c < cols; ++c)
        squares += std::pow(double(x.at(p - 50, c)), 2) / double(cols);
      auto normed = [&](int64_t c) {
        return x.at(p - 50, c) / std::sqrt(squares + double(eps)) *
               weight.at(0, c);
      };
      for (int64_t c = 0; c < cols; ++c) {
        double want = normed(c);
        if (int64_t i = c - (cols - dim - tail); i >= 0 && i < dim) {
          bool isSecond = neox ? i >= dim / 2 : i % 2;
          int64_t far = neox ? dim / 2 : 1;
          double angle = double(p + 1 - ratio) *
                         double(invFreq[neox ? i % (dim / 2) : i / 2]);
          double other = normed(isSecond ? c - far : c + far);
          want = want * std::cos(angle) +
                 (isSecond ? other : -other) * std::sin(angle);
        }
        double step = type == KvType::F16    ? 0x1p-11
                      : type == KvType::BF16 ? 0x1p-8
                                             : 0;
        double tolerance = (step + 8 * kEps) * std::fabs(want) + 1e-6;
        if (type == KvType::Q8_0)
          tolerance = 0.51 * cache.scaleAt(row, c);
        ASSERT_NEAR(cache.at(row, c), want, tolerance) << p << ", " << c;
      }
    }
  }
}

TEST_P(EntryStoreTest, NormedAndTurnedByTheFirstPosition) {
  expectEntriesStored(GetParam(), /*tail=*/0, /*neox=*/false);
}

TEST_P(EntryStoreTest, TurnsHalvesInFrontOfTheTail) {
  expectEntriesStored(GetParam(), /*tail=*/64, /*neox=*/true);
  expectEntriesStored(GetParam(), /*tail=*/3, /*neox=*/true);
  expectEntriesStored(GetParam(), /*tail=*/4, /*neox=*/false);
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

TEST_P(ClampedMulTest, WithinLimits) {
  for (bool activated : {false, true}) {
    Random random(5);
    const float limit = 1.5f;
    Matrix<float> gate(6, 301), up(6, 301), out(6, 301);
    gate.fill(random, 3);
    up.fill(random, 3);
    gate.at(0, 5) = NAN, up.at(1, 7) = NAN;
    gate.at(2, 9) = INFINITY, up.at(3, 11) = -INFINITY;
    ClampedMulArgs args{gate.data(), up.data(), out.data(), 301,
                        2,           limit,     /*soft=*/0, activated};
    runKernel(GetParam(), &args, {3, 0}, 0, {&out});
    expectClose(out, [&](int64_t t, int64_t c) {
      double g = gate.at(t, c), u = up.at(t, c);
      if (std::isnan(g) || std::isnan(u))
        return Wanted{NAN, 0};
      u = std::clamp(u, -double(limit), double(limit));
      double before = activated ? g : std::min(g, double(limit));
      double active = std::isinf(before) ? before : before * sigmoid(before);
      double want = (activated ? std::min(active, double(limit)) : active) * u;
      return Wanted{want, 8 * kEps * std::fabs(want) + 1e-37};
    });
  }
}

// The limits of SiTU: near ones for gates, far and near ones for ups.
TEST_P(ClampedMulTest, WithinSoftLimits) {
  for (float soft : {25.0f, 0.5f}) {
    Random random(5);
    const float limit = 1.5f;
    Matrix<float> gate(6, 301), up(6, 301), out(6, 301);
    gate.fill(random, 3);
    up.fill(random, 3);
    gate.at(0, 5) = NAN, up.at(1, 7) = NAN;
    gate.at(2, 9) = INFINITY, up.at(3, 11) = -INFINITY;
    ClampedMulArgs args{gate.data(), up.data(), out.data(), 301,
                        2,           limit,     soft,       false};
    runKernel(GetParam(), &args, {3, 0}, 0, {&out});
    expectClose(out, [&](int64_t t, int64_t c) {
      double g = gate.at(t, c), u = up.at(t, c);
      double most = double(soft), active = double(limit) * sigmoid(g);
      active *= std::tanh(g / double(limit));
      double bent = most * std::tanh(u / most);
      // Each softcap is off by some epsilons of its cap.
      return Wanted{active * bent,
                    4 * kEps *
                            (double(limit) * sigmoid(g) * std::fabs(bent) +
                             most * std::fabs(active)) +
                        8 * kEps * std::fabs(active * bent) + 1e-37};
    });
  }
}

struct Hashing {
  Hashing() : logits(5, 9, 2), ids(5, 3), weights(5, 3) {
    Random random(6);
    logits.fill(random, 3);
  }
  HashRouterArgs args(Scoring scoring) {
    HashRouterArgs a{};
    a.logits = logits.data(), a.stride = logits.stride;
    a.ids = ids.data(), a.weights = weights.data();
    a.experts = 9, a.topK = 3;
    a.scoring = scoring, a.normalize = true;
    a.scale = 1.5f;
    a.expertScale = scoring == Scoring::Sigmoid ? factors : nullptr;
    a.tokens = tokens, a.table = table.data();
    return a;
  }
  void run(const KernelInfo &kernel, Scoring scoring) {
    HashRouterArgs a = args(scoring);
    runKernel(kernel, &a, {5, 0}, size_t(routerScratchBytes(9)),
              {&ids, &weights});
  }

  const int32_t tokens[5] = {2, 0, 3, 1, 2};
  const float factors[9] = {2, 0.5f, 3, 1, 0.25f, 1.5f, 7, 1, 0.75f};
  std::vector<int32_t> table = {0, 8, 3, 1, 2, 4, 7, 6, 5, 8, 0, 1};
  Matrix<float> logits;
  Matrix<int32_t> ids;
  Matrix<float> weights;
};

TEST_P(HashRouterTest, ExpertsOfTheTableWithWeightsOfTheRouter) {
  for (Scoring scoring : {Scoring::Softmax, Scoring::Sigmoid, kSqrtSoftplus}) {
    Hashing h;
    h.run(GetParam(), scoring);
    for (int64_t t = 0; t < 5; ++t) {
      double total = 0;
      auto score = [&](int32_t e) {
        double z = h.logits.at(t, e);
        return scoring == Scoring::Softmax ? std::exp(z)
               : scoring == Scoring::Sigmoid
                   ? sigmoid(z)
                   : std::sqrt(std::log1p(std::exp(z)));
      };
      for (int64_t j = 0; j < 3; ++j) {
        ASSERT_EQ(h.ids.at(t, j), h.table[size_t(h.tokens[t] * 3 + j)]);
        total += score(h.ids.at(t, j));
      }
      for (int64_t j = 0; j < 3; ++j) {
        double want = 1.5 * score(h.ids.at(t, j)) / total;
        if (scoring == Scoring::Sigmoid)
          want *= double(h.factors[h.ids.at(t, j)]);
        ASSERT_NEAR(h.weights.at(t, j), want, 4 * kEps * want);
      }
    }
  }
}

// Choices that are no experts or repeated give NaN weights.
TEST_P(HashRouterTest, DamagedTablesGiveNaNWeights) {
  for (int32_t bad : {9, -1, INT32_MIN, INT32_MAX, 6}) {
    Hashing h;
    // The entry is of token 2, whose second expert is 6 already.
    h.table[8] = bad;
    h.run(GetParam(), kSqrtSoftplus);
    for (int64_t t = 0; t < 5; ++t)
      for (int64_t j = 0; j < 3; ++j) {
        EXPECT_EQ(std::isnan(h.weights.at(t, j)), h.tokens[t] == 2);
        EXPECT_TRUE(h.ids.at(t, j) >= 0 && h.ids.at(t, j) < 9);
        for (int64_t i = 0; i < j; ++i)
          EXPECT_NE(h.ids.at(t, i), h.ids.at(t, j));
      }
  }
}

} // namespace
