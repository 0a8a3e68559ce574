#include "runtime/base/JsonPlace.h"

#include "compiler/Machine/Targets/TargetJson.h"

#include <gtest/gtest.h>

using moert::JsonPlace;

namespace {

std::string errorOf(std::string_view json, int depth = 4) {
  auto parsed = moert::parseJson("f.json", json, depth);
  return parsed.isOk() ? "" : std::string(parsed.status().message());
}

TEST(JsonPlace, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_EQ(errorOf(""), "f.json:1:1: is not valid JSON: unexpected end of "
                         "input; expected '[', '{', or a literal");
  EXPECT_EQ(errorOf("{\n \"a\": 1,\n}"),
            "f.json:3:1: is not valid JSON: unexpected '}'; expected string "
            "literal");
  EXPECT_EQ(errorOf("{\"a\":1}x"), "f.json:1:8: is not valid JSON: invalid "
                                   "literal; expected end of input");
  EXPECT_EQ(errorOf("// a comment\n\"\xff\""),
            "f.json:2:2: is not valid JSON: invalid string: ill-formed UTF-8 "
            "byte");
  // Only the parser notices these, not the lexer.
  EXPECT_EQ(errorOf("{\"a\":\n 1e999}"),
            "f.json:2:6: is not valid JSON: number overflow parsing '1e999'");
}

TEST(JsonPlace, HalvesOfPairsAreReplaced) {
  auto parsed = [](const std::string &text) {
    auto json = moert::parseJson("f", "\"" + text + "\"", 4);
    return json ? json->get<std::string>() : "error";
  };
  EXPECT_EQ(parsed("\\uD83D\\uDE00"), "\U0001F600");
  EXPECT_EQ(parsed("a\\ud83d"), "a\uFFFD");
  EXPECT_EQ(parsed("\\ude00\\ud83d x"), "\uFFFD\uFFFD x");
  EXPECT_EQ(parsed("\\ud83d\\ud83d\\ude00"), "\uFFFD\U0001F600");
  EXPECT_EQ(parsed("\\\\ud83d"), "\\ud83d");
  EXPECT_EQ(parsed("\\ud83"), "error");
}

TEST(JsonPlace, MembersAreLimited) {
  std::string json = "{\"a\": {";
  for (int i = 0; i < 5000; ++i)
    json += (i > 0 ? ", \"" : "\"") + std::to_string(i) + "\": 1";
  EXPECT_TRUE(moert::parseJson("f.json", json + "}}", 2).isOk());
  auto refused = moert::parseJson("f.json", json + ", \"b\": 1}}", 2);
  ASSERT_FALSE(refused.isOk());
  EXPECT_EQ(refused.status().message(),
            "f.json:1:1: an object has more than 5000 members");
}

TEST(JsonPlace, AnErrorIsShortHoweverLongTheText) {
  std::string text = "\"" + std::string(100000, 'x');
  EXPECT_EQ(errorOf(text), "f.json:1:100002: is not valid JSON: invalid "
                           "string: missing closing quote");
}

TEST(JsonPlace, NestingIsBounded) {
  EXPECT_EQ(errorOf("[\n[[[1]], [[]]]]"), "");
  EXPECT_EQ(errorOf("{\"[\": [[\"[\", 2],\n [[{}]]]}"),
            "f.json:2:4: lists and objects are nested more than 4 deep");
  EXPECT_EQ(errorOf(std::string(1 << 20, '[')),
            "f.json:1:5: lists and objects are nested more than 4 deep");
}

TEST(JsonPlace, FindsKeysAndElements) {
  std::string_view text = "// c\n"
                          "{ \"x\": [1, {\"b\": \"]\\\"\"}, [true,2], null],\n"
                          " /* d */ \"list\": [ {\"q\":1.5e3 , \"r\":2},\n"
                          "   {\"n\" : 4, \"z\\u0061\": [ ] , \"k\":{}, "
                          "\"l\":-1}]}";
  ASSERT_TRUE(moert::parseJson("g", text, 4).isOk());
  JsonPlace root("g", text);
  auto at = [](const JsonPlace &place) {
    return std::string(place.error("m").message());
  };
  EXPECT_EQ(at(root), "g:2:1: m");
  EXPECT_EQ(at(root / "x"), "g:2:3: m");
  EXPECT_EQ(at(root / "x" / 1 / "b"), "g:2:13: m");
  EXPECT_EQ(at(root / "x" / 3), "g:2:36: m");
  EXPECT_EQ(at(root / "list"), "g:3:10: m");
  EXPECT_EQ(at(root / "list" / 0 / "r"), "g:3:33: m");
  EXPECT_EQ(at(root / "list" / 1), "g:4:4: m");
  EXPECT_EQ(at(root / "list" / 1 / "za"), "g:4:14: m");
  EXPECT_EQ(at(root / "list" / 1 / "l"), "g:4:39: m");
  // The position of a missing element is that of its parent.
  EXPECT_EQ(at(root / "list" / 1 / "nope"), "g:4:4: m");
  EXPECT_EQ(at(root / "nope" / 3 / "x"), "g:2:1: m");
}

TEST(TargetJson, ErrorsOfMeaningHaveLineAndColumn) {
  auto errorOf = [](std::string_view json) {
    auto devices = moec::parseDevices(json, "t.json");
    return devices.isOk() ? "" : std::string(devices.status().message());
  };
  EXPECT_EQ(errorOf("{\"devices\": [\n  {\"kind\": \"tpu\"}]}"),
            "t.json:2:4: \"kind\" must be \"cpu\" or \"cuda\", found \"tpu\"");
  EXPECT_EQ(
      errorOf("{\"devices\": [\n  {\"kind\": \"cpu\", \"x\\u001b\": 1}]}"),
      "t.json:2:19: unknown key \"x\\x1b\"");
  EXPECT_EQ(errorOf("{\"devices\": 3}"),
            "t.json:1:2: \"devices\" must be an array");
  EXPECT_EQ(errorOf("{\"devices\": [3]}"),
            "t.json:1:14: a device must be a JSON object");
  EXPECT_EQ(errorOf("{\"kind\": \"cpu\", \"isa\": \"avx2\",\n \"cores\": -1}"),
            "t.json:2:2: \"cores\" is -1, expected 1 to 100000");
  EXPECT_EQ(errorOf("\n{\"kind\": \"cpu\", \"isa\": \"avx2\"}"),
            "t.json:2:1: \"cores\" is missing");
}

} // namespace
