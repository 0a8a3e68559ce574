// The counts of moert profile-router.
#include "tools/moert/RouterProfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using moert::LayerProfile;
using moert::RouterProfile;
using ::testing::DoubleEq;
using ::testing::ElementsAre;

namespace {

void add(LayerProfile &layer, std::vector<int32_t> ids,
         std::vector<float> weights) {
  layer.add(ids, weights);
}

TEST(LayerProfile, CountsAndMassByExpertAndRank) {
  LayerProfile layer(4, 2);
  // Parts are 1/4 and 3/4, whatever the scale.
  add(layer, {3, 1}, {0.5f, 1.5f});
  add(layer, {1, 0}, {2, 2});
  EXPECT_EQ(layer.tokens, 2u);
  EXPECT_THAT(layer.counts, ElementsAre(1, 2, 0, 1));
  EXPECT_THAT(layer.gateMass, ElementsAre(DoubleEq(0.5), DoubleEq(1.25),
                                          DoubleEq(0), DoubleEq(0.25)));
  EXPECT_THAT(layer.massByRank, ElementsAre(DoubleEq(1.25), DoubleEq(0.75)));
  EXPECT_DOUBLE_EQ(layer.shareOfHottest(1), 0.5);
  EXPECT_DOUBLE_EQ(layer.shareOfHottest(9), 1);
}

// A distance is the number of other experts used since: a cache of that size
// would have kept the expert.
TEST(LayerProfile, ReuseDistances) {
  LayerProfile layer(4, 1);
  for (int32_t id : {0, 1, 1, 2, 0, 0, 3, 1})
    add(layer, {id}, {1});
  // Reuses: 1 after no other, 0 after 1 and 2, 0 after no other, 1 after 2, 0,
  // 3.
  EXPECT_EQ(layer.firstUses, 4u);
  EXPECT_THAT(layer.reuse, ElementsAre(2, 0, 1, 1));
  EXPECT_DOUBLE_EQ(layer.cacheHits(1), 2.0 / 8);
  EXPECT_DOUBLE_EQ(layer.cacheHits(3), 3.0 / 8);
  EXPECT_DOUBLE_EQ(layer.cacheHits(99), 4.0 / 8);
}

TEST(LayerProfile, ATokensExpertsAreUsedTogether) {
  LayerProfile layer(4, 2);
  add(layer, {0, 1}, {1, 1});
  add(layer, {1, 0}, {1, 1});
  EXPECT_EQ(layer.firstUses, 2u);
  EXPECT_THAT(layer.reuse, ElementsAre(1, 1, 0, 0));
}

TEST(LayerProfile, EmptyProfilesDoNotDivideByZero) {
  LayerProfile layer(4, 2);
  EXPECT_EQ(layer.shareOfHottest(1), 0);
  EXPECT_EQ(layer.cacheHits(1), 0);
  add(layer, {0, 1}, {0, 0});
  EXPECT_EQ(layer.massByRank[0], 0);
}

TEST(RouterProfile, LayersWithTheirRows) {
  RouterProfile profile;
  std::vector<int32_t> ids = {0, 1, 1, 2};
  std::vector<float> weights = {3, 1, 1, 3};
  profile.add({7, 3, 2, ids, weights});
  profile.add({2, 3, 2, std::span(ids).first(2), std::span(weights).first(2)});
  nlohmann::ordered_json layers = profile.json();
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0]["layer"], 2);
  EXPECT_EQ(layers[0]["tokens"], 1);
  EXPECT_EQ(layers[1]["counts"], nlohmann::json({1, 2, 1}));
  EXPECT_EQ(layers[1]["frequency"], nlohmann::json({0.5, 1.0, 0.5}));
  EXPECT_EQ(layers[1]["mass_by_rank"], nlohmann::json({0.75, 0.25}));
  EXPECT_EQ(layers[1]["reuse_distance"]["first_uses"], 3);
}

} // namespace
