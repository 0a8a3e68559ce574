#include "runtime/base/Text.h"

#include <gtest/gtest.h>

using namespace moert;

namespace {

TEST(Text, QuotedNamesCannotDriveATerminal) {
  EXPECT_EQ(moert::quoted("blk.0.weight"), "\"blk.0.weight\"");
  EXPECT_EQ(moert::quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(moert::quoted("\x1b[2J\n\xff"), "\"\\x1b[2J\\x0a\\xff\"");
  EXPECT_EQ(moert::quoted(std::string(97, 'x')),
            "\"" + std::string(96, 'x') + "...\"");
}

TEST(Text, ReportsKeepTheWholeText) {
  std::string sentence(200, 'x');
  EXPECT_EQ(moert::escaped(sentence), sentence);
  EXPECT_EQ(moert::escaped("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(moert::printable("DeepSeek V3"), "DeepSeek V3");
  EXPECT_EQ(moert::printable(""), "\"\"");
  EXPECT_EQ(moert::printable("a\n"), "\"a\\x0a\"");
}

TEST(Text, CountsAndSizes) {
  EXPECT_EQ(counted(1, "byte"), "1 byte");
  EXPECT_EQ(counted(0, "byte"), "0 bytes");
  EXPECT_EQ(humanCount(999), "999");
  EXPECT_EQ(humanCount(671026404352), "671.03 B");
  EXPECT_EQ(humanBytes(0), "0 B");
  EXPECT_EQ(humanBytes(1023), "1023 B");
  EXPECT_EQ(humanBytes(1536), "1.50 KiB");
  EXPECT_EQ(humanBytes(377.0 * (1ull << 30)), "377.00 GiB");
}

} // namespace
