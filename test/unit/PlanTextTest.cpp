#include "compiler/Driver/PlanText.h"

#include <gtest/gtest.h>

namespace {

std::string errorOf(std::string_view text) {
  return std::string(moec::checkPlanText("p.mlir", text).message());
}

std::string times(size_t count, std::string_view text) {
  std::string result;
  while (count-- > 0)
    result += text;
  return result;
}

TEST(PlanText, NestingIsBounded) {
  EXPECT_EQ(errorOf(times(256, "[") + times(256, "]") + times(256, "{")), "");
  for (const char *bracket : {"(", "[", "{", "<", "tuple<", "[{(<"})
    EXPECT_NE(errorOf("\n" + times(257, bracket)).find("p.mlir:2:"),
              std::string::npos)
        << bracket;
  EXPECT_EQ(errorOf("x = \n " + times(257, "[")),
            "p.mlir:2:258: brackets are nested more than 256 deep");
}

TEST(PlanText, OnlyBracketsCount) {
  // Strings with quotes in them, comments, arrows and pairs side by side.
  EXPECT_EQ(errorOf(times(300, "\"[\\\"[\" ")), "");
  EXPECT_EQ(errorOf(times(300, "// [[\n")), "");
  EXPECT_EQ(errorOf(times(300, "(i32) -> <i32> ")), "");
  // More closing than opening brackets are the parser's error, and hide
  // nothing.
  EXPECT_NE(errorOf(times(300, "]") + times(257, "[")), "");
  EXPECT_NE(errorOf("\"unclosed\n" + times(257, "[")), "");
  EXPECT_EQ(errorOf("\"ends in a backslash\\"), "");
}

TEST(PlanText, WhatPlansDoNotHold) {
  EXPECT_EQ(errorOf("x =\n affine_map<(d0) -> (-d0)>"),
            "p.mlir:2:2: plans have no affine maps");
  EXPECT_EQ(errorOf("\"affine_map\" @no_affine_map"), "");
  EXPECT_EQ(errorOf("ML\xefR\x01"), "p.mlir: is MLIR bytecode; give text");
}

} // namespace
