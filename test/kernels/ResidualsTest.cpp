// Attention over earlier residual states, and stacks of them.
#include "test/kernels/KernelTest.h"

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(ResidualMixTest, ResidualMix);
MOE_KERNEL_SUITE(ConcatTest, Concat);

struct Mixing {
  Mixing(int64_t tokens, int32_t count, int64_t cols)
      : x(tokens, cols, 3), stack(tokens, count * cols, 5), weight(1, cols),
        out(tokens, cols, 2), count(count), cols(cols) {
    Random random(4);
    x.fill(random, 2);
    stack.fill(random, 2);
    // Scores of a few units, so that all rows count.
    weight.fill(random, float(2 / std::sqrt(double(cols))));
  }
  void run(const KernelInfo &kernel) {
    ResidualMixArgs args{x.data(),      x.stride,   stack.data(), stack.stride,
                         weight.data(), out.data(), out.stride,   cols,
                         count,         eps};
    runKernel(kernel, &args, {int32_t(x.rows), 0}, 0, {&out});
  }
  float row(int64_t t, int64_t i, int64_t c) const {
    return i < count ? stack.at(t, i * cols + c) : x.at(t, c);
  }
  double score(int64_t t, int64_t i) const {
    double product = 0, squares = 0;
    for (int64_t c = 0; c < cols; ++c) {
      product += double(row(t, i, c)) * double(weight.at(0, c));
      squares += double(row(t, i, c)) * double(row(t, i, c));
    }
    return product / std::sqrt(squares / double(cols) + double(eps));
  }

  Matrix<float> x, stack, weight, out;
  int32_t count;
  int64_t cols;
  float eps = 0.05f;
};

TEST_P(ResidualMixTest, SumsByTheSoftmaxOfScores) {
  for (auto [tokens, count, cols] :
       {std::tuple<int64_t, int32_t, int64_t>{5, 1, 40},
        {1, 8, 1030},
        {12, 3, 1},
        {2, 63, 7},
        {3, 4, 515}}) {
    Mixing mixing(tokens, count, cols);
    mixing.run(GetParam());
    expectClose(
        mixing.out, [&, count = count, cols = cols](int64_t t, int64_t c) {
          double sum = 0, all = 0, magnitude = 0;
          for (int64_t i = 0; i <= count; ++i) {
            double weight = std::exp(mixing.score(t, i));
            double term = weight * double(mixing.row(t, i, c));
            all += weight, sum += term, magnitude += std::fabs(term);
          }
          // Scores are sums of cols products; an error of a score is one of its
          // weight.
          double off = sumTolerance(cols, 8) + sumTolerance(count + 1, 1);
          return Wanted{sum / all, 4 * off * magnitude / all};
        });
  }
}

// Scores are not sums of squares: they can be large, and their order counts.
TEST_P(ResidualMixTest, LargeScoresDoNotOverflow) {
  Mixing mixing(2, 2, 64);
  for (int64_t c = 0; c < 64; ++c)
    mixing.weight.at(0, c) *= 1e4f;
  mixing.run(GetParam());
  for (int64_t t = 0; t < 2; ++t)
    for (int64_t c = 0; c < 64; ++c)
      EXPECT_TRUE(std::isfinite(mixing.out.at(t, c))) << t << ", " << c;
}

TEST_P(ResidualMixTest, NonFiniteIsSeenWhereItCounts) {
  for (int64_t bad : {0, 2}) {
    Mixing mixing(3, 2, 70);
    if (bad < 2)
      mixing.stack.at(1, bad * 70 + 66) = NAN;
    else
      mixing.x.at(1, 66) = INFINITY;
    mixing.run(GetParam());
    for (int64_t t = 0; t < 3; ++t)
      for (int64_t c = 0; c < 70; ++c)
        EXPECT_EQ(std::isnan(mixing.out.at(t, c)), t == 1) << t << ", " << c;
  }
}

TEST_P(ConcatTest, OneBesideTheOther) {
  Random random(5);
  for (auto [first, second] : {std::pair{40, 40}, {1, 515}, {300, 7}}) {
    Matrix<float> x(5, first), y(5, second), out(5, first + second);
    x.fill(random);
    y.fill(random);
    ConcatArgs args{x.data(), first, y.data(), second, out.data()};
    runKernel(GetParam(), &args, {5, 0}, 0, {&out});
    for (int64_t t = 0; t < 5; ++t)
      for (int64_t c = 0; c < first + second; ++c)
        ASSERT_EQ(out.at(t, c), c < first ? x.at(t, c) : y.at(t, c - first));
  }
}

} // namespace
