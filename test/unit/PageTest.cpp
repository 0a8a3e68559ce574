//===- PageTest.cpp - Reports in groups, lines and tables -----------------===//

#include "runtime/base/Page.h"

#include <gtest/gtest.h>

using namespace moert;

namespace {

TEST(Page, ProseIsWrapped) {
  Page page;
  std::string word(60, 'a');
  page.paragraph("  why  ", word + " " + word + "\nthe next line");
  EXPECT_EQ(page.take(),
            "  why  " + word + "\n       " + word + "\n       the next line\n");
}

TEST(Page, CommandsAreNot) {
  std::string command = "moec compile " + std::string(150, 'm') + ".gguf -o " +
                        std::string(150, 'p') + ".fb";
  Page page;
  page.paragraph("  why  ",
                 "it is for another machine; recompile it\n  run: " + command);
  EXPECT_EQ(page.take(), "  why  it is for another machine; recompile it\n"
                         "  run: " +
                             command + "\n");
}

} // namespace
