#include "runtime/base/Text.h"

#include "runtime/base/Page.h"

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

TEST(Text, UserTextIsClippedBetweenCharacters) {
  EXPECT_EQ(moert::clipped("blk.*=gpu0"), "blk.*=gpu0");
  std::string longest(96, 'x');
  EXPECT_EQ(moert::clipped(longest), longest);
  EXPECT_EQ(moert::clipped(longest + "y"), longest + "...");
  std::string umlaut = longest.substr(1) + "\xc3\xa4";
  EXPECT_EQ(moert::clipped(umlaut), longest.substr(1) + "...");
}

TEST(Text, ReportsKeepTheWholeText) {
  std::string sentence(200, 'x');
  EXPECT_EQ(moert::escaped(sentence), sentence);
  EXPECT_EQ(moert::escaped("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(moert::printable("DeepSeek V3"), "DeepSeek V3");
  EXPECT_EQ(moert::printable(""), "\"\"");
  EXPECT_EQ(moert::printable("a\n"), "\"a\\x0a\"");
}

TEST(Text, ControlCharactersAreEscaped) {
  EXPECT_EQ(moert::terminalSafe("a \"b\\c\td\n"), "a \"b\\c\td\n");
  EXPECT_EQ(moert::terminalSafe("na\u00efve \u6587 \U0001f600 \u200e"),
            "na\u00efve \u6587 \U0001f600 \u200e");
  EXPECT_EQ(moert::terminalSafe("\x1b[2J\a\r\b\x7f"),
            "\\x1b[2J\\x07\\x0d\\x08\\x7f");
  EXPECT_EQ(moert::terminalSafe(std::string_view("\0", 1)), "\\x00");
  // The control characters U+0080 to U+009F, as characters and as bytes.
  EXPECT_EQ(moert::terminalSafe("\u0080\u009b\u009f\u00a0"),
            "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f\u00a0");
  EXPECT_EQ(moert::terminalSafe("\x9b[2J"), "\\x9b[2J");
  EXPECT_EQ(moert::terminalSafe("x\xe2\x80"), "x\\xe2\\x80");
  EXPECT_EQ(moert::terminalSafe("\u202a\u202e\u2066\u2069"),
            "\\xe2\\x80\\xaa\\xe2\\x80\\xae"
            "\\xe2\\x81\\xa6\\xe2\\x81\\xa9");
}

TEST(Text, JsonKeepsItsValues) {
  EXPECT_EQ(moert::terminalSafeJson("{\"a\": \"\u00ef\\n\"}\n"),
            "{\"a\": \"\u00ef\\n\"}\n");
  EXPECT_EQ(moert::terminalSafeJson("\"\x7f\u009b\u202e\""),
            "\"\\u007f\\u009b\\u202e\"");
  EXPECT_EQ(moert::terminalSafeJson("\"\x9b\""), "\"\ufffd\"");
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

TEST(Page, GroupsLinesAndTables) {
  Page page;
  page.group("first");
  page.line("label", "value");
  page.group("second");
  page.table({{"name", false, 9}, {"bytes", true, 9}},
             {{"a", "10"}, {"abcdefghijkl", "1"}, {"short"}});
  EXPECT_EQ(page.take(), "first\n"
                         "  label            value\n"
                         "\n"
                         "second\n"
                         "  name       bytes\n"
                         "  a             10\n"
                         "  abc...jkl      1\n"
                         "  short\n");
}

TEST(Page, ParagraphsBreakAtSpaces) {
  Page page;
  std::string word(60, 'x');
  page.paragraph("1. ", word + " " + word + " end");
  EXPECT_EQ(page.take(), "1. " + word + "\n   " + word + " end\n");
  Page longWord;
  longWord.paragraph("", std::string(120, 'x'));
  EXPECT_EQ(longWord.take(), std::string(118, 'x') + "\nxx\n");
  Page empty;
  empty.paragraph("- ", "");
  EXPECT_EQ(empty.take(), "- \n");
}

} // namespace
