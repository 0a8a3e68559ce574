//===- RopeTest.cpp - Frequencies against an independent computation ------===//
//
// Expected values: numpy in float64, from the published formulas.
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/Rope.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;

namespace {
class RopeTest : public testing::Test {
protected:
  RopeTest() { context.loadDialect<MoeDialect>(); }

  SmallVector<float> frequencies(int64_t dim, double factor, int64_t original,
                                 double fast = 32, double slow = 1) {
    return ropeInvFreq(attr(dim, factor, original, fast, slow));
  }

  RopeAttr attr(int64_t dim, double factor, int64_t original, double fast = 32,
                double slow = 1, bool rounded = true,
                ArrayRef<Real> divisors = {}) {
    return RopeAttr::get(&context, dim, 10000.0, factor, original, fast, slow,
                         rounded, /*magnitude=*/1.0, divisors, /*neox=*/false,
                         /*reversed=*/false);
  }

  MLIRContext context;
};

void expectNear(ArrayRef<float> actual, ArrayRef<float> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_FLOAT_EQ(actual[i], expected[i]) << "pair " << i;
}
} // namespace

TEST_F(RopeTest, PlainIsAPowerOfTheBase) {
  expectNear(frequencies(16, 1, 0),
             {1.0f, 0.31622776f, 0.1f, 0.031622775f, 0.01f, 0.0031622776f,
              0.001f, 0.00031622776f});
}

TEST_F(RopeTest, LinearDividesEveryFrequency) {
  expectNear(frequencies(8, 4, 0), {0.25f, 0.025f, 0.0025f, 0.00025f});
}

TEST_F(RopeTest, YarnKeepsFastPairsAndDividesSlowOnes) {
  expectNear(frequencies(16, 40, 4096),
             {1.0f, 0.31622776f, 0.1f, 0.023914725f, 0.005125f, 0.0008498621f,
              2.5e-05f, 7.9056945e-06f});
}

TEST_F(RopeTest, YarnRampMovesWithTheBetas) {
  SmallVector<float> usual = frequencies(64, 40, 4096);
  SmallVector<float> moved = frequencies(64, 40, 4096, 16, 2);
  // The ramp begins after pair 10, or after pair 12.
  EXPECT_FLOAT_EQ(usual[11], 0.039006926f);
  EXPECT_FLOAT_EQ(moved[11], 0.04216965f);
  EXPECT_FLOAT_EQ(usual[16], 0.0055f);
  EXPECT_FLOAT_EQ(moved[16], 0.0056666667f);
  // The ramp ends at pair 23, or at pair 21.
  EXPECT_FLOAT_EQ(usual[22], 0.00017782794f);
  EXPECT_FLOAT_EQ(moved[22], 4.4456985e-05f);
  EXPECT_FLOAT_EQ(usual[31], moved[31]);
}

// gpt-oss: the ramp is from 8.09 to 17.40, which others round to 8 and 18.
TEST_F(RopeTest, AnUnroundedRamp) {
  RopeAttr exact = RopeAttr::get(&context, 64, 150000.0, 32.0, 4096, 32.0, 1.0,
                                 /*rounded=*/false, 1.0, {}, /*neox=*/true,
                                 /*reversed=*/false);
  RopeAttr rounded = RopeAttr::get(&context, 64, 150000.0, 32.0, 4096, 32.0,
                                   1.0, /*rounded=*/true, 1.0, {}, true, false);
  EXPECT_NEAR(ropeInvFreq(exact)[17] / ropeInvFreq(rounded)[17], 0.57, 0.01);
  EXPECT_FLOAT_EQ(ropeInvFreq(exact)[8], ropeInvFreq(rounded)[8]);
}

TEST_F(RopeTest, DivisorsComeBeforeScaling) {
  std::vector<Real> divisors{1, 2, 4, 8};
  expectNear(ropeInvFreq(attr(8, 2, 0, 32, 1, true, divisors)),
             {0.5f, 0.025f, 0.00125f, 6.25e-05f});
}

TEST_F(RopeTest, ReversedTurnsBack) {
  SmallVector<float> forward = frequencies(16, 40, 4096);
  RopeAttr rope = RopeAttr::get(&context, 16, 10000.0, 40.0, 4096, 32.0, 1.0,
                                true, 1.0, {}, false, /*reversed=*/true);
  SmallVector<float> back = ropeInvFreq(rope);
  for (size_t i = 0; i < forward.size(); ++i)
    EXPECT_EQ(back[i], -forward[i]) << "pair " << i;
}
