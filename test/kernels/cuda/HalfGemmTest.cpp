//===- HalfGemmTest.cpp - Products of float weights with tensor cores -----===//
//
// Weights of other tests have gaps between their rows, which leaves them to
// FloatGemm.cu. Here rows are those of files, with every edge of tiles and
// stages, and with launches for small and large GPUs.
//
//===----------------------------------------------------------------------===//

#include "kernels/quant/Half.h"
#include "test/kernels/Phase.h"
#include "test/kernels/Routing.h"
#include "test/kernels/cuda/OnGpu.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace moek;
using namespace moek::test;

namespace {

/// Multiprocessors of a GPU for which blocks are as large as possible, or as
/// many as possible.
constexpr int kFewSms = 1, kManySms = 1000;
/// More rows of weights than a router has: one 16-bit number per activation.
constexpr int64_t kOnePartRows = 520;

struct HalfWeights {
  HalfWeights(Format format, int64_t outer, int64_t rows, int64_t cols,
              Random &random)
      : values(format, outer, rows, cols, random), files(values.view) {}
  double at(int64_t o, int64_t r, int64_t c) const {
    return values.at(o, r, c);
  }
  uint8_t *row(int64_t o, int64_t r) {
    return files.bytes.data() + o * files.view.outerStride +
           r * files.view.rowStride;
  }
  Weights values;
  Files files;
};

/// The possible error of an activation that is rounded to one 16-bit number or
/// to two, and of a product with F32 weights, of which both factors are three.
double roundingOf(Format format, bool isOnePart) {
  if (format == Format::F32)
    return 0x1p-24;
  double each = format == Format::F16 ? 0x1p-11 : 0x1p-8;
  return isOnePart ? each : each * each;
}

struct HalfSum {
  double value = 0, error = 0;
};
HalfSum sumOf(const HalfWeights &w, int64_t o, int64_t r, const float *x,
              double rounding) {
  HalfSum sum;
  double magnitude = 0;
  int64_t cols = w.files.view.cols;
  for (int64_t c = 0; c < cols; ++c) {
    double term = w.at(o, r, c) * double(x[c]);
    sum.value += term;
    magnitude += std::fabs(term);
  }
  sum.error = sumTolerance(cols, magnitude) + rounding * magnitude;
  return sum;
}

Wanted gatedHalf(const HalfSum &g, const HalfSum &u) {
  double gate = g.value / (1 + std::exp(-g.value)), value = gate * u.value;
  return {value, 1.1 * g.error * (std::fabs(u.value) + u.error) +
                     u.error * std::fabs(gate) +
                     16 * kEps * (std::fabs(value) + std::fabs(u.value))};
}

/// Whether the launches of these arguments are those of HalfGemm.cu.
bool isHalf(OpCode op, const void *args, int32_t tokens) {
  auto launches = launchesOf(
      op, args, cuda::contextOf(tokens, 1, 512, GpuTest::get().gpu->arch(), 8));
  return launches.size() >= 2 &&
         launches[1].kernel.file.find("HalfGemm") != std::string::npos;
}

class HalfGemmTest : public testing::TestWithParam<Format> {
protected:
  void SetUp() override {
    if (GpuTest::get().gpu && GpuTest::get().gpu->arch() < 80)
      GTEST_SKIP() << "sm_75 has no mma for it";
  }

  LinearArgs linear(const HalfWeights &w, const Matrix<float> &x,
                    Matrix<float> &out) {
    return {reinterpret_cast<const uint8_t *>(x.data()),
            x.stride * 4,
            w.files.view,
            nullptr,
            nullptr,
            out.data(),
            out.stride,
            false};
  }

  void check(int64_t rows, int64_t cols, int32_t tokens, int sms,
             bool accumulate = false) {
    SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", " << tokens
                                    << " tokens, " << sms << " sms");
    Random random(uint32_t(rows + cols + tokens));
    HalfWeights w(GetParam(), 1, rows, cols, random);
    Matrix<float> x(tokens, cols, 3), bias(1, rows), out(tokens, rows, 5);
    x.fill(random);
    bias.fill(random);
    out.fill(random);
    std::vector<float> before;
    for (int64_t t = 0; t < tokens; ++t)
      before.insert(before.end(), out.row(t), out.row(t) + rows);
    LinearArgs args = linear(w, x, out);
    args.bias = bias.data();
    args.accumulate = accumulate;
    ASSERT_TRUE(isHalf(OpCode::Linear, &args, tokens));
    runOnGpu(OpCode::Linear, &args, {tokens, 0}, {}, 0, sms);
    out.expectOnlyPayloadWritten();
    bool isOnePart = rows >= kOnePartRows && GetParam() != Format::F32;
    expectClose(out, [&](int64_t t, int64_t r) {
      HalfSum sum = sumOf(w, 0, r, x.row(t), roundingOf(GetParam(), isOnePart));
      double old = accumulate ? before[size_t(t * rows + r)] : 0;
      return Wanted{sum.value + bias.at(0, r) + old,
                    sum.error + 4 * kEps *
                                    (std::fabs(sum.value) + std::fabs(old) +
                                     std::fabs(bias.at(0, r)))};
    });
  }
};

TEST_P(HalfGemmTest, EdgesOfTilesAndStages) {
  for (int sms : {kFewSms, kManySms}) {
    check(1, 8, 9, sms);
    check(19, 24, 17, sms, true);
    check(64, 32, 33, sms);
    check(65, 40, 32, sms);
    check(130, 136, 70, sms, true);
  }
  // More steps than stages, with and without a rest, and of more slices.
  for (int64_t cols : {96, 128, 160, 192, 264, 520, 1032})
    check(33, cols, 16, cols % 64 ? kManySms : kFewSms);
}

TEST_P(HalfGemmTest, ManyRowsOfWeights) {
  check(kOnePartRows + 3, 104, 150, kFewSms);
  check(kOnePartRows, 72, 40, kManySms, true);
}

/// Whether blocks of these launches share activations in clusters.
bool hasClusters(OpCode op, const void *args, int32_t tokens, int sms) {
  auto launches = launchesOf(
      op, args,
      cuda::contextOf(tokens, 1, 512, GpuTest::get().gpu->arch(), sms));
  for (const cuda::Definition &definition : launches.back().kernel.defines)
    if (definition.name == "MOE_CLUSTER")
      return true;
  return false;
}

// On an H100, blocks of a cluster have other weight rows and the same
// activations. Some blocks have no rows of weights, or fewer than a tile; some
// rows of the last tile of activations are missing, or a whole tile is; columns
// end within a tile, after fewer steps than stages or more.
TEST_P(HalfGemmTest, ClustersShareActivations) {
  if (GpuTest::get().gpu->arch() != 90 || GetParam() == Format::F32)
    GTEST_SKIP() << "clusters are for F16 and BF16 on an H100";
  constexpr int kSms = 8; // There is room for one cluster.
  Random random(11);
  for (auto [rows, cols, tokens] : {std::tuple{523, 72, 253},
                                    {1024, 200, 201},
                                    {650, 584, 400},
                                    {1300, 320, 250}}) {
    HalfWeights w(GetParam(), 1, rows, cols, random);
    Matrix<float> x(tokens, cols), out(tokens, rows);
    LinearArgs args = linear(w, x, out);
    ASSERT_TRUE(hasClusters(OpCode::Linear, &args, tokens, kSms));
    check(rows, cols, tokens, kSms, tokens % 2 == 0);
  }
  // A step has fewer tokens than its phase: for the second tile there are none.
  phase() = {505, 1};
  check(700, 136, 100, kSms);
  phase() = {};
}

TEST_P(HalfGemmTest, ClustersGiveTheSameBitsUnderEverySchedule) {
  if (GpuTest::get().gpu->arch() != 90 || GetParam() == Format::F32)
    GTEST_SKIP() << "clusters are for F16 and BF16 on an H100";
  Random random(12);
  int64_t rows = 600, cols = 456;
  int32_t tokens = 240;
  HalfWeights w(GetParam(), 1, rows, cols, random);
  Matrix<float> x(tokens, cols), out(tokens, rows, 1);
  x.fill(random);
  LinearArgs args = linear(w, x, out);
  // One block after another (without clusters) adds in the same order.
  std::vector<uint8_t> first;
  for (int sms : {1, 8})
    underEverySchedule([&, sms = sms] {
      out.reset();
      EXPECT_EQ(hasClusters(OpCode::Linear, &args, tokens, sms), sms == 8);
      runOnGpu(OpCode::Linear, &args, {tokens, 0}, {}, 0, sms);
      if (first.empty())
        first = out.bytes();
      EXPECT_EQ(out.bytes(), first) << sms;
    });
}

// Decode (FloatGemm.cu): a warp has whole rows of weights, or shares them.
TEST_P(HalfGemmTest, FewTokens) {
  for (int sms : {kFewSms, kManySms})
    for (int32_t tokens : {1, 2, 3, 5})
      for (int64_t cols : {40, 2056}) {
        Random random(uint32_t(cols + tokens));
        int64_t rows = 37;
        HalfWeights w(GetParam(), 1, rows, cols, random);
        Matrix<float> x(tokens, cols), out(tokens, rows, 3);
        x.fill(random);
        LinearArgs args = linear(w, x, out);
        runOnGpu(OpCode::Linear, &args, {tokens, 0}, {}, 0, sms);
        out.expectOnlyPayloadWritten();
        expectClose(out, [&](int64_t t, int64_t r) {
          HalfSum sum = sumOf(w, 0, r, x.row(t), 0);
          return Wanted{sum.value, sum.error};
        });
      }
}

// Rows begin at multiples of sixteen bytes although they end elsewhere, as
// those of a part of a matrix do: what follows them is not read as a weight.
TEST_P(HalfGemmTest, RowsThatEndBetweenAlignedAddresses) {
  for (int32_t tokens : {1, 3})
    for (int64_t cols : {4, 12, 28, 1036}) {
      SCOPED_TRACE(testing::Message() << cols << " columns");
      Random random(uint32_t(cols + tokens));
      int64_t rows = 21;
      HalfWeights w(GetParam(), 1, rows, cols, random);
      Matrix<float> x(tokens, cols, 4), out(tokens, rows, 3);
      x.fill(random);
      LinearArgs args = linear(w, x, out);
      args.w = w.values.view;
      runOnGpu(OpCode::Linear, &args, {tokens, 0}, {}, 0, kFewSms);
      out.expectOnlyPayloadWritten();
      expectClose(out, [&](int64_t t, int64_t r) {
        HalfSum sum = sumOf(w, 0, r, x.row(t), 0);
        return Wanted{sum.value, sum.error};
      });
    }
}

// The order of blocks and warps, and the time at which copies arrive, do not
// change a bit, with stages and slices in use several times.
TEST_P(HalfGemmTest, SameBitsUnderEverySchedule) {
  Random random(3);
  for (auto [rows, tokens, sms] :
       {std::tuple{70, 37, kManySms}, std::tuple{150, 70, kFewSms},
        std::tuple{530, 129, kFewSms}}) {
    HalfWeights w(GetParam(), 1, rows, 264, random);
    Matrix<float> x(tokens, 264), out(tokens, rows, 1);
    x.fill(random);
    LinearArgs args = linear(w, x, out);
    std::vector<uint8_t> first;
    underEverySchedule([&, tokens = tokens, sms = sms, rows = rows] {
      out.reset();
      runOnGpu(OpCode::Linear, &args, {tokens, 0}, {}, 0, sms);
      if (first.empty())
        first = out.bytes();
      EXPECT_EQ(out.bytes(), first) << rows << " rows";
    });
  }
}

// Tiles are divided by columns, all or some of them, and their parts added in
// place or by a second launch: a row has the same bits wherever it is in the
// step, and whoever ends first.
TEST_P(HalfGemmTest, LastTilesByColumns) {
  int64_t rows = 530, cols = 3016, each = 5;
  Random random(9);
  HalfWeights w(GetParam(), 1, rows, cols, random);
  Matrix<float> own(each, cols);
  own.fill(random);
  std::vector<HalfSum> wanted;
  for (int64_t i = 0; i < each * rows; ++i)
    wanted.push_back(sumOf(w, 0, i % rows, own.row(i / rows),
                           roundingOf(GetParam(), GetParam() != Format::F32)));
  std::map<Division, int> divided;
  // At most twice for each way, of many GPUs.
  for (int i = 0; i < 24; ++i) {
    const int tokens = i % 2 ? 70 : 130, sms = 2 + i / 2;
    Matrix<float> x(tokens, cols, 3), out(tokens, rows, 1);
    for (int64_t t = 0; t < tokens; ++t)
      std::copy_n(own.row(t % each), cols, x.row(t));
    LinearArgs args = linear(w, x, out);
    const Division division =
        divisionOf(OpCode::Linear, &args, tokens, {}, sms);
    if (division == Division::None || divided[division] == 2)
      continue;
    SCOPED_TRACE(testing::Message()
                 << tokens << " tokens, " << sms
                 << " multiprocessors, division " << int(division));
    ++divided[division];
    std::vector<uint8_t> first;
    underEverySchedule([&] {
      out.reset();
      runOnGpu(OpCode::Linear, &args, {tokens, 0}, {}, 0, sms);
      if (first.empty())
        first = out.bytes();
      EXPECT_EQ(out.bytes(), first);
    });
    out.expectOnlyPayloadWritten();
    expectClose(out, [&](int64_t t, int64_t r) {
      const HalfSum &sum = wanted[size_t(t % each * rows + r)];
      return Wanted{sum.value, sum.error};
    });
    for (int64_t t = each; t < tokens; ++t)
      EXPECT_EQ(std::memcmp(out.row(t), out.row(t % each), size_t(rows) * 4), 0)
          << "row " << t;
  }
  EXPECT_GE(divided[Division::InPlace], 1);
  EXPECT_GE(divided[Division::SecondLaunch], 1);
}

TEST_P(HalfGemmTest, GateAndUp) {
  for (auto [rows, tokens, sms] :
       {std::tuple<int64_t, int32_t, int>{37, 23, kFewSms},
        {70, 40, kManySms},
        {kOnePartRows, 129, kFewSms},
        {kOnePartRows, 250, 8}}) { // On an H100 these run in clusters.
    Random random(4);
    int64_t cols = 168;
    HalfWeights gate(GetParam(), 1, rows, cols, random);
    HalfWeights up(GetParam(), 1, rows, cols, random);
    Matrix<float> x(tokens, cols), out(tokens, rows, 3), biases(2, rows);
    x.fill(random, 0.2f);
    biases.fill(random);
    GateUpArgs args{reinterpret_cast<const uint8_t *>(x.data()),
                    x.stride * 4,
                    gate.files.view,
                    up.files.view,
                    nullptr,
                    nullptr,
                    biases.row(0),
                    biases.row(1),
                    out.data(),
                    out.stride};
    ASSERT_TRUE(isHalf(OpCode::GateUp, &args, tokens));
    runOnGpu(OpCode::GateUp, &args, {tokens, 0}, {}, 0, sms);
    out.expectOnlyPayloadWritten();
    double rounding = roundingOf(GetParam(), rows >= kOnePartRows &&
                                                 GetParam() != Format::F32);
    expectClose(out, [&](int64_t t, int64_t r) {
      HalfSum g = sumOf(gate, 0, r, x.row(t), rounding),
              u = sumOf(up, 0, r, x.row(t), rounding);
      g.value += biases.at(0, r);
      u.value += biases.at(1, r);
      return gatedHalf(g, u);
    });
  }
}

TEST_P(HalfGemmTest, SlotsMeetTheirExperts) {
  int32_t experts = 7, topK = 3;
  for (auto [tokens, perToken] :
       {std::pair{29, false}, {29, true}, {131, true}}) {
    Random random(5);
    int64_t rows = 49, cols = 136;
    HalfWeights w(GetParam(), experts, rows, cols, random);
    HalfWeights up(GetParam(), experts, rows, cols, random);
    Routing routing(tokens, topK, experts, random);
    Matrix<float> x(perToken ? tokens : tokens * topK, cols, 1);
    Matrix<float> out(int64_t(tokens) * topK, rows, 3);
    x.fill(random, 0.2f);
    ExpertsLinearArgs args{reinterpret_cast<const uint8_t *>(x.data()),
                           x.stride * 4,
                           w.files.view,
                           nullptr,
                           nullptr,
                           routing.offsets.data(),
                           routing.slots.data(),
                           out.data(),
                           out.stride,
                           topK,
                           perToken};
    ASSERT_TRUE(isHalf(OpCode::ExpertsLinear, &args, tokens));
    runOnGpu(OpCode::ExpertsLinear, &args, {tokens, 0}, {});
    out.expectOnlyPayloadWritten();
    double rounding = roundingOf(GetParam(), false);
    auto sumAt = [&](const HalfWeights &of, int64_t s, int64_t r) {
      return sumOf(of, routing.ids[size_t(s)], r,
                   x.row(perToken ? s / topK : s), rounding);
    };
    expectClose(out, [&](int64_t s, int64_t r) {
      HalfSum sum = sumAt(w, s, r);
      return Wanted{sum.value, sum.error};
    });
    if (!perToken)
      continue;
    ExpertsGateUpArgs gated{
        args.act,   args.actStride, w.files.view, up.files.view, nullptr,
        nullptr,    nullptr,        nullptr,      args.offsets,  args.slots,
        out.data(), out.stride,     topK};
    out.reset();
    ASSERT_TRUE(isHalf(OpCode::ExpertsGateUp, &gated, tokens));
    runOnGpu(OpCode::ExpertsGateUp, &gated, {tokens, 0}, {});
    out.expectOnlyPayloadWritten();
    expectClose(out, [&](int64_t s, int64_t r) {
      return gatedHalf(sumAt(w, s, r), sumAt(up, s, r));
    });
  }
}

TEST_P(HalfGemmTest, HeadsHaveTheirMatricesAndTails) {
  for (auto [heads, rows, cols, tail, tokens] :
       {std::tuple{3, 37, 72, 5, 19}, {5, 128, 32, 0, 40}, {2, 64, 136, 64, 9}})
    for (int sms : {kFewSms, kManySms}) {
      Random random(6);
      HalfWeights w(GetParam(), heads, rows, cols, random);
      Matrix<float> x(tokens, int64_t(heads) * (cols + tail), 3);
      Matrix<float> out(tokens, int64_t(heads) * (rows + tail), 3);
      x.fill(random);
      HeadLinearArgs args{x.data(),      x.stride,   w.files.view, nullptr,
                          Encoding::F32, out.data(), out.stride,   tail};
      ASSERT_TRUE(isHalf(OpCode::HeadLinear, &args, tokens));
      runOnGpu(OpCode::HeadLinear, &args, {tokens, 0}, {}, 0, sms);
      out.expectOnlyPayloadWritten();
      double rounding = roundingOf(GetParam(), heads * rows >= kOnePartRows &&
                                                   GetParam() != Format::F32);
      expectClose(out, [&, tail = tail, rows = rows, cols = cols](int64_t t,
                                                                  int64_t c) {
        int64_t h = c / (rows + tail), r = c % (rows + tail);
        const float *head = x.row(t) + h * (cols + tail);
        if (r >= rows)
          return Wanted{head[cols + r - rows], 0};
        HalfSum sum = sumOf(w, h, r, head, rounding);
        return Wanted{sum.value, sum.error};
      });
    }
}

// Rows of very different size, which F16 could not represent: each is scaled.
TEST_P(HalfGemmTest, LargeAndSmallActivations) {
  for (int64_t rows : {int64_t(40), kOnePartRows}) {
    Random random(7);
    int64_t cols = 96;
    int32_t tokens = 12;
    HalfWeights w(GetParam(), 1, rows, cols, random);
    Matrix<float> x(tokens, cols), out(tokens, rows, 3);
    for (int32_t t = 0; t < tokens; ++t)
      for (int64_t c = 0; c < cols; ++c)
        x.at(t, c) = random.normal(
            t == 5 ? 0 : std::exp2(float(t) * 12 - 60) * (c == 7 ? 2000 : 1));
    LinearArgs args = linear(w, x, out);
    runOnGpu(OpCode::Linear, &args, {tokens, 0}, {}, 0, kFewSms);
    bool isOnePart = rows >= kOnePartRows && GetParam() != Format::F32;
    expectClose(out, [&](int64_t t, int64_t r) {
      HalfSum sum = sumOf(w, 0, r, x.row(t), roundingOf(GetParam(), isOnePart));
      return Wanted{sum.value, sum.error};
    });
  }
}

// Tensor cores truncate what they add, so that their sums of products of one
// sign are too small by more the longer they are: those of F32 weights are
// rounded by lanes.
TEST_P(HalfGemmTest, LongSumsOfFloatsAreNotTruncated) {
  if (GetParam() != Format::F32)
    GTEST_SKIP() << "activations that 16-bit weights meet are rounded by more";
  Random random(13);
  constexpr int64_t kCols = 4096;
  constexpr int32_t kTokens = 16;
  for (int sms : {kFewSms, kManySms}) {
    HalfWeights w(GetParam(), 1, 1, kCols, random);
    Matrix<float> x(kTokens, kCols), out(kTokens, 1);
    for (int64_t t = 0; t < kTokens; ++t)
      for (int64_t c = 0; c < kCols; ++c)
        x.at(t, c) = float(std::copysign(random.normal(1), w.at(0, 0, c)));
    LinearArgs args = linear(w, x, out);
    ASSERT_TRUE(isHalf(OpCode::Linear, &args, kTokens));
    runOnGpu(OpCode::Linear, &args, {kTokens, 0}, {}, 0, sms);
    for (int64_t t = 0; t < kTokens; ++t) {
      const double wanted = sumOf(w, 0, 0, x.row(t), 0).value;
      EXPECT_NEAR(out.at(t, 0), wanted, 0x1p-20 * std::fabs(wanted))
          << "token " << t;
    }
  }
}

// Zero times NaN is NaN: what is behind the last column is not multiplied.
TEST_P(HalfGemmTest, NonFiniteNumbersStayInTheirRowAndToken) {
  Random random(8);
  int64_t rows = 70, cols = 40, brokenRow = 37;
  int32_t tokens = 21, brokenToken = 13;
  for (bool infinite : {false, true}) {
    HalfWeights w(GetParam(), 1, rows, cols, random);
    Matrix<float> x(tokens, cols), out(tokens, rows, 3);
    x.fill(random);
    float broken = infinite ? HUGE_VALF : NAN;
    // First and last columns: the latter's neighbours are other rows' first.
    x.at(brokenToken, 0) = broken;
    x.at(brokenToken, cols - 1) = broken;
    uint16_t half =
        GetParam() == Format::F16 ? floatToF16(broken) : floatToBf16(broken);
    for (int64_t c : {int64_t(0), cols - 1})
      if (GetParam() == Format::F32)
        std::memcpy(w.row(0, brokenRow) + 4 * c, &broken, 4);
      else
        std::memcpy(w.row(0, brokenRow) + 2 * c, &half, 2);
    w.files.view.data = w.files.bytes.data();
    LinearArgs args = linear(w, x, out);
    runOnGpu(OpCode::Linear, &args, {tokens, 0}, {}, 0, kFewSms);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = 0; r < rows; ++r)
        ASSERT_EQ(!std::isfinite(out.at(t, r)),
                  t == brokenToken || r == brokenRow)
            << "token " << t << ", row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, HalfGemmTest,
                         testing::Values(Format::F32, Format::F16,
                                         Format::BF16),
                         [](const auto &info) {
                           return std::string(formatInfo(info.param).name);
                         });

} // namespace
