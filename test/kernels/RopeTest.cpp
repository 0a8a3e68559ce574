#include "kernels/KvCache.h"
#include "test/kernels/KernelTest.h"

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(RopeTableTest, RopeTable);
MOE_KERNEL_SUITE(RopeTest, Rope);
MOE_KERNEL_SUITE(PositionScaleTest, PositionScale);
MOE_KERNEL_SUITE(EmbedPositionsTest, EmbedPositions);
MOE_KERNEL_SUITE(MlaLatentTest, MlaLatent);

void checkTable(const KernelInfo &kernel, int32_t dim, Step step,
                float scale = 1) {
  std::vector<float> invFreq;
  for (int i = 0; i < dim / 2; ++i)
    invFreq.push_back(float(std::pow(10000.0, -2.0 * i / dim)));
  Matrix<float> out(step.tokens, dim);
  RopeTableArgs args{invFreq.data(), dim, out.data(), scale};
  runKernel(kernel, &args, step, 0, {&out});
  expectClose(out, [&](int64_t t, int64_t c) {
    bool sine = c >= dim / 2;
    double angle = double(step.position + t) *
                   double(invFreq[size_t(sine ? c - dim / 2 : c)]);
    return Wanted{double(scale) * (sine ? std::sin(angle) : std::cos(angle)),
                  2 * kEps * double(scale)};
  });
}

TEST_P(RopeTableTest, CosinesThenSines) {
  checkTable(GetParam(), 64, {5, 0});
  checkTable(GetParam(), 6, {3, 17});
}

TEST_P(RopeTableTest, StaysExactAtAMillion) {
  checkTable(GetParam(), 64, {3, 1000000});
}

TEST_P(RopeTableTest, TimesAScale) {
  checkTable(GetParam(), 64, {5, 3}, 1.3466f);
}

TEST_P(PositionScaleTest, StepsAtWholeLengths) {
  for (int32_t offset : {0, 1})
    for (int32_t position : {0, 5, 1000003}) {
      Random random(21);
      Matrix<float> x(9, 45), out(9, 45);
      x.fill(random);
      PositionScaleArgs args{x.data(), out.data(), 45, 4, offset, 0.1f};
      runKernel(GetParam(), &args, {9, position}, 0, {&out});
      expectClose(out, [&](int64_t t, int64_t c) {
        double periods = std::floor(double(position + t + offset) / 4);
        double y = x.at(t, c) * (1 + double(0.1f) * std::log1p(periods));
        return Wanted{y, 4 * kEps * std::fabs(y)};
      });
      Matrix<float> inPlace(9, 45);
      std::memcpy(inPlace.data(), x.data(), x.bytes().size());
      inPlace.keepAsInitial();
      args.x = args.out = inPlace.data();
      runKernel(GetParam(), &args, {9, position}, 0, {&inPlace});
      EXPECT_EQ(inPlace.bytes(), out.bytes());
    }
}

TEST_P(EmbedPositionsTest, RowsOfPositions) {
  for (Format format : {Format::F32, Format::F16, Format::Q8_0}) {
    Random random(22);
    Weights table(format, 1, 13, 96, random);
    Matrix<float> out(5, 96);
    EmbedPositionsArgs args{table.view, out.data(), 96};
    runKernel(GetParam(), &args, {5, 7}, 0, {&out});
    expectClose(out, [&](int64_t t, int64_t c) {
      return Wanted{table.at(0, 7 + t, c), 4 * kEps * table.largest(0, 7 + t)};
    });
  }
}

Matrix<float> randomTable(int64_t tokens, int64_t dim, Random &random) {
  Matrix<float> table(tokens, dim);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t i = 0; i < dim / 2; ++i) {
      double angle = random.normal(3);
      table.at(t, i) = float(std::cos(angle));
      table.at(t, dim / 2 + i) = float(std::sin(angle));
    }
  return table;
}

/// Returns element `i` of `x` after rotation.
Wanted rotated(const double *x, const float *table, int64_t dim, int64_t i,
               bool neox) {
  int64_t half = dim / 2, pair = neox ? i % half : i / 2;
  bool second = neox ? i >= half : i % 2;
  double u = x[neox ? pair : 2 * pair],
         v = x[neox ? pair + half : 2 * pair + 1];
  double c = table[pair], s = table[half + pair];
  return {second ? u * s + v * c : u * c - v * s,
          3 * kEps * (std::fabs(u) + std::fabs(v))};
}

void checkRope(const KernelInfo &kernel, int32_t heads, int32_t headStride,
               int32_t offset, int32_t dim, bool neox, int32_t tokens) {
  Random random(11);
  Matrix<float> x(tokens, heads * headStride, 3);
  x.fill(random);
  x.keepAsInitial();
  std::vector<double> before(x.data(), x.data() + x.rows * x.stride);
  Matrix<float> table = randomTable(tokens, dim, random);
  RopeArgs args{x.data(),   x.stride, table.data(), heads,
                headStride, offset,   dim,          neox};
  runKernel(kernel, &args, {tokens, 5}, 0, {&x});
  expectClose(x, [&](int64_t t, int64_t c) {
    const double *row = before.data() + t * x.stride;
    int64_t i = c % headStride - offset;
    if (i < 0 || i >= dim)
      return Wanted{row[c], 0};
    return rotated(row + (c - i), table.row(t), dim, i, neox);
  });
}

TEST_P(RopeTest, RotatesNeighboursInsideTheHead) {
  checkRope(GetParam(), 16, 192, 128, 64, false, 3);
  checkRope(GetParam(), 3, 19, 5, 14, false, 7);
  checkRope(GetParam(), 1, 2, 0, 2, false, 1);
}

TEST_P(RopeTest, RotatesHalvesForNeox) {
  checkRope(GetParam(), 4, 128, 0, 128, true, 2);
  checkRope(GetParam(), 3, 19, 4, 14, true, 7);
}

struct LatentCase {
  int32_t latent, rope, tokens, position;
};

void checkLatent(const KernelInfo &kernel, KvType type, LatentCase s,
                 int64_t nanToken = -1) {
  Random random(13);
  Matrix<float> x(s.tokens, s.latent + s.rope, 3), weight(1, s.latent);
  x.fill(random, 2);
  if (nanToken >= 0)
    x.at(nanToken, 0) = NAN;
  weight.fill(random);
  Matrix<float> table = randomTable(s.tokens, s.rope, random);
  Cache cache(type, s.latent + s.rope, s.position + s.tokens + 2, s.position,
              random);
  MlaLatentArgs args{x.data(),   x.stride, weight.data(), table.data(),
                     cache.view, s.latent, s.rope,        1e-6f};
  std::vector<std::vector<uint8_t>> before;
  for (int64_t r = 0; r < cache.view.capacity; ++r)
    before.push_back(cache.rowBytes(r));
  runKernel(kernel, &args, {s.tokens, s.position}, 0, {&cache.memory});

  // Relative rounding error of the cache's type; F16 also has a smallest step.
  double step = type == KvType::BF16  ? 0x1p-8
                : type == KvType::F16 ? 0x1p-11
                                      : 0;
  Matrix<float> got(s.tokens, s.latent + s.rope);
  for (int64_t t = 0; t < s.tokens; ++t)
    for (int64_t c = 0; c < got.cols; ++c)
      got.at(t, c) = float(cache.at(s.position + t, c));
  auto exact = [&](int64_t t, int64_t c) {
    Wanted w;
    if (c < s.latent) {
      double squares = 0;
      for (int64_t i = 0; i < s.latent; ++i)
        squares += double(x.at(t, i)) * x.at(t, i);
      w.value =
          x.at(t, c) / std::sqrt(squares / s.latent + 1e-6f) * weight.at(0, c);
      w.tolerance = kEps * (s.latent / 8 + 16) * std::fabs(w.value);
    } else {
      std::vector<double> key(x.row(t) + s.latent, x.row(t) + x.cols);
      w = rotated(key.data(), table.row(t), s.rope, c - s.latent, false);
    }
    return w;
  };
  // Half a step of the block that contains element c of token t.
  auto halfStep = [&](int64_t t, int64_t c) {
    double most = 0;
    for (int64_t i = c / kKvBlock * kKvBlock;
         i < std::min(got.cols, c / kKvBlock * kKvBlock + kKvBlock); ++i) {
      Wanted w = exact(t, i);
      if (std::isnan(w.value))
        return double(NAN);
      most = std::fmax(most, std::fabs(w.value) + w.tolerance);
    }
    return most / 127 * (0.5 + 127 * 4 * kEps);
  };
  expectClose(got, [&](int64_t t, int64_t c) {
    Wanted w = exact(t, c);
    if (type == KvType::Q8_0) {
      // A NaN affects its whole block.
      double half = halfStep(t, c);
      return Wanted{std::isnan(half) ? half : w.value, w.tolerance + half};
    }
    w.tolerance += (std::fabs(w.value) + w.tolerance) * step + step * 0x1p-14;
    return w;
  });
  for (int64_t r = 0; r < cache.view.capacity; ++r)
    if (r < s.position || r >= s.position + s.tokens) {
      EXPECT_EQ(cache.rowBytes(r), before[size_t(r)])
          << "row " << r << " does not belong to the step, but changed";
    }
}

TEST_P(MlaLatentTest, NormAndRotatedKeyReachTheCache) {
  for (KvType type : kKvTypes)
    for (LatentCase s : {LatentCase{512, 64, 3, 5}, LatentCase{19, 6, 8, 0},
                         LatentCase{300, 260, 1, 2}, LatentCase{1, 2, 2, 9},
                         LatentCase{257, 64, 37, 15}}) {
      SCOPED_TRACE(testing::Message() << "type " << int(type) << ", latent "
                                      << s.latent << ", rope " << s.rope);
      checkLatent(GetParam(), type, s);
    }
}

TEST_P(MlaLatentTest, NaNStaysInItsToken) {
  for (KvType type : kKvTypes)
    checkLatent(GetParam(), type, {33, 4, 4, 1}, 2);
}

} // namespace
