#include "runtime/base/Suggest.h"

#include <gtest/gtest.h>

using moert::closestMatch;
using moert::editDistance;

namespace {

TEST(Suggest, EditDistance) {
  EXPECT_EQ(editDistance("", ""), 0u);
  EXPECT_EQ(editDistance("abc", ""), 3u);
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(editDistance("flaw", "lawn"), 2u);
  EXPECT_EQ(editDistance("xeno", "xeon"), 1u);
  EXPECT_EQ(editDistance("tarqte", "target"), 2u);
}

TEST(Suggest, OffersTyposOnly) {
  const std::vector<std::string> names = {"xeon", "4090+xeon", "2x4090+xeon"};
  EXPECT_EQ(closestMatch("4090+xeno", names), "4090+xeon");
  EXPECT_EQ(closestMatch("XEON", names), "xeon");
  EXPECT_EQ(closestMatch("h100", names), std::nullopt);
  EXPECT_EQ(closestMatch("", names), std::nullopt);
  EXPECT_EQ(closestMatch(std::string(1 << 20, 'x'), names), std::nullopt);
}

} // namespace
