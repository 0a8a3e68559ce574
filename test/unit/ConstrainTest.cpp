//===- ConstrainTest.cpp - Grammars and the tokens that they allow --------===//

#include "runtime/constrain/Gbnf.h"
#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/MatcherPool.h"
#include "runtime/constrain/Regex.h"
#include "runtime/constrain/SchemaMerge.h"
#include "runtime/constrain/SchemaTranslator.h"
#include "test/unit/PassedDeadline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

using namespace moert;
using testing::HasSubstr;

namespace {
/// Every byte is a token, as are some texts that cross the borders of rules and
/// of characters. The last token ends the text.
const std::vector<std::string> &vocabulary() {
  static const std::vector<std::string> tokens = [] {
    std::vector<std::string> all;
    for (int byte = 0; byte < 256; ++byte)
      all.emplace_back(1, char(byte));
    for (const char *text :
         {"ab", "abc", "{\"", "\":", "\",\"", "\"}", "]}", "12", "-1", "true",
          " {", "\n  ", "\xC3\xA4", "a\xC3", "\xA4\xE2\x82", "\\u00", "null,"})
      all.emplace_back(text);
    return all;
  }();
  return tokens;
}

int32_t endToken() { return int32_t(vocabulary().size()); }

std::shared_ptr<const TokenTrie> trie() {
  static const auto shared = [] {
    std::vector<std::string_view> tokens(vocabulary().begin(),
                                         vocabulary().end());
    tokens.emplace_back("");
    return std::make_shared<const TokenTrie>(tokens, std::vector{endToken()});
  }();
  return shared;
}

Matcher matcherOf(const Grammar &grammar, MatcherLimits limits = {}) {
  StatusOr<Automaton> automaton = Automaton::compile(grammar);
  EXPECT_TRUE(automaton.isOk()) << automaton.status().message();
  return Matcher(std::make_shared<const Automaton>(*std::move(automaton)),
                 trie(), limits);
}

bool isSet(std::span<const uint64_t> mask, int32_t token) {
  return mask[size_t(token) / 64] >> (token % 64) & 1;
}

/// Returns whether the grammar accepts the text when each byte is a token.
bool accepts(const Grammar &grammar, std::string_view text) {
  Matcher matcher = matcherOf(grammar);
  for (char byte : text)
    if (!matcher.accept(uint8_t(byte)))
      return false;
  return matcher.accept(endToken()).isOk();
}

Grammar gbnf(std::string_view text) {
  StatusOr<Grammar> grammar = parseGbnf(text);
  EXPECT_TRUE(grammar.isOk()) << grammar.status().message();
  return *std::move(grammar);
}

Grammar regex(std::string_view text) {
  StatusOr<Grammar> grammar = parseRegex(text);
  EXPECT_TRUE(grammar.isOk()) << grammar.status().message();
  return *std::move(grammar);
}

std::string failure(const Status &status) {
  EXPECT_EQ(status.code(), StatusCode::Usage);
  return status.message();
}

std::string failureOfGbnf(std::string_view text) {
  StatusOr<Grammar> grammar = parseGbnf(text);
  return failure(grammar ? Automaton::compile(*grammar).status()
                         : grammar.status());
}

std::string failureOfSchema(const char *text) {
  StatusOr<Grammar> grammar =
      parseJsonSchema(nlohmann::ordered_json::parse(text));
  return failure(grammar ? Automaton::compile(*grammar).status()
                         : grammar.status());
}

//===----------------------------------------------------------------------===//
// GBNF and regular expressions
//===----------------------------------------------------------------------===//

TEST(Constrain, GbnfTexts) {
  Grammar list = gbnf("# a list\n"
                      "root ::= \"[\" (item (\",\" item)*)? \"]\"\n"
                      "item ::= [0-9]{1,3} | \"x\\ty\" |\n"
                      "  root\n");
  for (const char *text : {"[]", "[1]", "[123,x\ty,[],[[7]]]"})
    EXPECT_TRUE(accepts(list, text)) << text;
  for (const char *text : {"", "[", "[1,]", "[1234]", "[x y]", "[]]", "[[7]"})
    EXPECT_FALSE(accepts(list, text)) << text;
  Grammar set = gbnf("root ::= [^a-c\\]\\u00e4]+ .");
  EXPECT_TRUE(accepts(set, "x\xE2\x82\xAC."));
  EXPECT_TRUE(accepts(set, "]x") == false);
  EXPECT_FALSE(accepts(set, "\xC3\xA4x"));
  EXPECT_FALSE(accepts(set, "\xFFx"));
}

TEST(Constrain, GbnfErrorsNameThePlace) {
  std::string wide = "[a-z]";
  for (int i = 0; i < 10; ++i)
    wide = "(" + wide + "){4}";
  EXPECT_THAT(failureOfGbnf("a ::= \"b\""), HasSubstr("no rule root"));
  EXPECT_THAT(failureOfGbnf("root ::= other"),
              HasSubstr("rule other is used but not defined"));
  EXPECT_THAT(failureOfGbnf("root ::= \"a\"\nroot ::= \"b\""),
              HasSubstr("grammar:2:5: rule root is defined twice"));
  EXPECT_THAT(failureOfGbnf("root ::= (\"a\""), HasSubstr("expected )"));
  EXPECT_THAT(failureOfGbnf("root ::= \"\\q\""), HasSubstr("unknown escape"));
  EXPECT_THAT(failureOfGbnf("root ::= [b-a]"), HasSubstr("grammar:1:14:"));
  EXPECT_THAT(failureOfGbnf("root ::= \"a\"{2,1}"), HasSubstr("smaller"));
  EXPECT_THAT(failureOfGbnf("root ::= \"a\"{99999}"), HasSubstr("above 4096"));
  EXPECT_THAT(failureOfGbnf("root ::= \"a\"? root"), HasSubstr("never ends"));
  EXPECT_THAT(failureOfGbnf("root ::= \"a\"? root | \"b\""),
              HasSubstr("left-recursive"));
  EXPECT_THAT(failureOfGbnf("root ::= x\nx ::= y \"a\" | \"b\"\ny ::= x?"),
              HasSubstr("left-recursive"));
  EXPECT_THAT(failureOfGbnf("root ::= " + wide),
              HasSubstr("over 500000 states"));
  EXPECT_THAT(failureOfGbnf("root ::= " + std::string(1000, '(')),
              HasSubstr("nested too deep"));
  EXPECT_THAT(parseGbnf("root ::= [0-9]" + std::string(200'000, '+'))
                  .status()
                  .message(),
              HasSubstr("nested too deep"));
}

TEST(Constrain, GbnfRulesAreLimited) {
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 6000; ++i)
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  StatusOr<Grammar> grammar = parseGbnf(chain);
  ASSERT_FALSE(grammar.isOk());
  EXPECT_THAT(grammar.status().message(), HasSubstr("more than 5000 rules"));
}

TEST(Constrain, RegexTexts) {
  struct {
    const char *pattern;
    std::vector<const char *> yes, no;
  } cases[] = {
      {"a|bc*", {"a", "b", "bcc"}, {"", "ac", "cb"}},
      {"^(?:x|(?<n>y)){2}$", {"xx", "xy", "yx"}, {"x", "xxx"}},
      {"\\d{3}-\\w+?\\s", {"123-a_9 ", "000-Z\t"}, {"12-a ", "123- "}},
      {"[\\d.a-f-]*", {"", "1.f-"}, {"g"}},
      {"[^\\x41\\u{1F600}]", {"a", "\xC3\xA4"}, {"A", "\xF0\x9F\x98\x80"}},
      {"\\.\\\\.", {".\\x"}, {"x\\x", ".\\\n"}},
      {"a{2", {"a{2"}, {"aa"}},
      {".*\\bcat\\b.*", {"cat", "a cat."}, {"cats", "concat"}},
      {"(^a|b$)+", {"a", "b", "ab"}, {"ba", "bb"}},
      {"^(?=.*\\d)(?!.*x)[a-z0-9]{2,3}", {"a1", "12b"}, {"ab", "x1", "1"}},
      {"(a|b)\\1", {"aa", "bb"}, {"ab", "a"}},
      {"\\p{Lu}.", {"Ab", "\xC3\x84x"}, {"ab", "1b"}},
      {"a(?!b)[a-c]", {"aa", "ac"}, {"ab"}},
      {"(?i)ab", {"aB", "AB"}, {"a"}},
      {"(?>a+)b", {"aab"}, {"aa"}},
  };
  for (const auto &each : cases) {
    Grammar grammar = regex(each.pattern);
    for (const char *text : each.yes)
      EXPECT_TRUE(accepts(grammar, text)) << each.pattern << " " << text;
    for (const char *text : each.no)
      EXPECT_FALSE(accepts(grammar, text)) << each.pattern << " " << text;
  }
  for (const char *pattern : {"(a", "a)", "*a", "a**", "[b-a]", "[a", "(?a)",
                              "\\q", "x{3,2}", "((a{1000}){1000}){1000}"})
    EXPECT_THAT(failure(parseRegex(pattern).status()), HasSubstr("pattern:1:"))
        << pattern;
}

TEST(Constrain, Utf8SequencesAreTheCharacters) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    CharSet set;
    for (int i = 0; i < 3; ++i) {
      uint32_t first = random() % 0x110000, size = 1u << random() % 20;
      set.add({first, first + size});
    }
    Matcher matcher = matcherOf([&] {
      Grammar grammar;
      RuleId root = grammar.declare("root");
      grammar.define(root, grammar.chars(set));
      return grammar;
    }());
    for (int i = 0; i < 100; ++i) {
      // Choose code points near the ends of the set's ranges, and where the
      // length of their encoding changes.
      const auto &ranges = set.ranges();
      uint32_t c = ranges[random() % ranges.size()].first + random() % 3 - 1;
      if (i % 3 == 0)
        c = (1u << (5 + random() % 16)) + random() % 3 - 1;
      if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        continue;
      size_t taken = 0;
      bool isIn = true;
      for (char byte : encodeUtf8(c)) {
        isIn = isIn && matcher.accept(uint8_t(byte)).isOk();
        taken += isIn;
      }
      EXPECT_EQ(isIn && matcher.canEnd(), set.contains(c)) << c;
      EXPECT_TRUE(matcher.rewind(taken).isOk());
    }
  }
}

//===----------------------------------------------------------------------===//
// Matcher
//===----------------------------------------------------------------------===//

TEST(Constrain, MasksAreWhatAcceptTakes) {
  const Grammar grammars[] = {
      gbnf("root ::= \"abc\" | \"a\" root \"b\" | [\\u00e4\\u20ac]+"),
      regex("(ab|abc)*(true|null,)?12"),
      *parseJsonSchema(nlohmann::ordered_json::parse(
          R"({"type": "object", "properties": {"ab": {"type": "integer"},
             "c": {}}, "required": ["c"]})"))};
  std::mt19937 random(11);
  for (const Grammar &grammar : grammars) {
    for (int round = 0; round < 20; ++round) {
      Matcher matcher = matcherOf(grammar);
      for (int step = 0; step < 12 && !matcher.hasEnded(); ++step) {
        StatusOr<std::span<const uint64_t>> mask = matcher.allowed();
        ASSERT_TRUE(mask.isOk());
        std::vector<uint64_t> copy(mask->begin(), mask->end());
        std::vector<int32_t> choices;
        for (int32_t token = 0; token <= endToken(); ++token) {
          bool taken = matcher.accept(token).isOk();
          EXPECT_EQ(isSet(copy, token), taken) << token;
          if (taken) {
            EXPECT_TRUE(matcher.rewind(1).isOk());
            choices.push_back(token);
          }
        }
        ASSERT_FALSE(choices.empty());
        ASSERT_TRUE(matcher.accept(choices[random() % choices.size()]).isOk());
      }
    }
  }
}

TEST(Constrain, ATextEndsOnlyWhereItIsComplete) {
  Matcher matcher = matcherOf(gbnf("root ::= \"ab\" \"c\"?"));
  EXPECT_FALSE(matcher.accept(endToken()).isOk());
  EXPECT_TRUE(matcher.accept(256).isOk()); // Token 256 is "ab".
  EXPECT_TRUE(matcher.canEnd());
  EXPECT_FALSE(matcher.hasEnded());
  EXPECT_TRUE(matcher.accept('c').isOk());
  EXPECT_TRUE(matcher.hasEnded());
  EXPECT_TRUE(matcher.accept(endToken()).isOk());
  EXPECT_FALSE(matcher.accept('c').isOk());
  EXPECT_FALSE(matcher.accept(endToken()).isOk());
  EXPECT_TRUE(matcher.rewind(2).isOk());
  EXPECT_TRUE(matcher.canEnd());
  EXPECT_FALSE(matcher.rewind(2).isOk());
}

TEST(Constrain, ForgettingKeepsThePositions) {
  Grammar nested = gbnf("root ::= \"[\" root* \"]\" | [a-c]{3,9}");
  Matcher small = matcherOf(nested, {.positions = 4}),
          large = matcherOf(nested);
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    auto a = small.allowed(), b = large.allowed();
    ASSERT_TRUE(a.isOk() && b.isOk());
    ASSERT_TRUE(std::ranges::equal(*a, *b));
    if (i % 7 == 6 || large.hasEnded()) {
      ASSERT_TRUE(small.rewind(1).isOk() && large.rewind(1).isOk());
      continue;
    }
    std::vector<int32_t> choices;
    for (int32_t token = 0; token < endToken(); ++token)
      if (isSet(*b, token) && token != ']')
        choices.push_back(token);
    int32_t token = choices.empty() ? ']' : choices[random() % choices.size()];
    ASSERT_TRUE(small.accept(token).isOk() && large.accept(token).isOk());
  }
}

std::shared_ptr<const Automaton> compiled(const char *source) {
  StatusOr<Automaton> automaton = Automaton::compile(gbnf(source));
  EXPECT_TRUE(automaton.isOk());
  return std::make_shared<const Automaton>(*std::move(automaton));
}

// A request gets the matcher of an earlier one with an equal grammar, at the
// beginning of a text, and never one that is in use or of another grammar.
TEST(Constrain, MatchersAreUsedAgain) {
  constexpr const char *first = "root ::= \"a\" \"b\"*",
                       *second = "root ::= \"b\"+";
  MatcherPool pool(trie());
  std::unique_ptr<Matcher> one = pool.take(compiled(first));
  std::unique_ptr<Matcher> other = pool.take(compiled(first));
  const Matcher *address = one.get();
  ASSERT_TRUE(one->accept('a').isOk());
  ASSERT_TRUE(one->accept('b').isOk());
  ASSERT_TRUE(one->allowed().isOk());
  const size_t learnt = one->bytes();
  pool.put(std::move(one));
  EXPECT_NE(pool.take(compiled(second)).get(), address);
  one = pool.take(compiled(first));
  EXPECT_EQ(one.get(), address);
  auto mask = one->allowed();
  ASSERT_TRUE(mask.isOk());
  EXPECT_TRUE(isSet(*mask, 'a'));
  EXPECT_FALSE(isSet(*mask, 'b'));
  EXPECT_FALSE(one->canEnd());
  EXPECT_FALSE(one->rewind(1).isOk());
  // The pool keeps those that were put back last.
  pool.put(std::move(one));
  for (size_t i = 0; i < MatcherPool::kMost; ++i)
    pool.put(std::make_unique<Matcher>(compiled(second), trie()));
  EXPECT_LT(pool.take(compiled(first))->bytes(), learnt);
  EXPECT_TRUE(other->accept('a').isOk());
}

TEST(Constrain, LimitsRefuse) {
  Grammar nested = gbnf("root ::= \"[\" root \"]\" | \"a\"");
  Matcher flat = matcherOf(nested, {.depth = 3});
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(flat.accept('[').isOk());
  EXPECT_FALSE(flat.accept('[').isOk());
  EXPECT_TRUE(flat.accept('a').isOk());
  // Each of many rules may have begun anywhere.
  Matcher wide = matcherOf(gbnf("root ::= (x y)* z\nx ::= \"a\"* \"b\"?\n"
                                "y ::= (\"a\" y \"a\")? \"a\"*\nz ::= \"c\""),
                           {.ways = 8});
  Status status = Status::ok();
  for (int i = 0; i < 40 && status.isOk(); ++i)
    status = wide.accept('a');
  EXPECT_EQ(status.code(), StatusCode::DoesNotFit) << status.message();
}

//===----------------------------------------------------------------------===//
// JSON schemas
//===----------------------------------------------------------------------===//

struct SchemaCase {
  const char *schema;
  std::vector<const char *> yes, no;
};

class JsonSchemaTexts : public testing::TestWithParam<SchemaCase> {};

TEST_P(JsonSchemaTexts, AreThoseThatItAccepts) {
  StatusOr<Grammar> grammar =
      parseJsonSchema(nlohmann::ordered_json::parse(GetParam().schema));
  ASSERT_TRUE(grammar.isOk()) << grammar.status().message();
  for (const char *text : GetParam().yes)
    EXPECT_TRUE(accepts(*grammar, text)) << text;
  for (const char *text : GetParam().no)
    EXPECT_FALSE(accepts(*grammar, text)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Constrain, JsonSchemaTexts,
    testing::Values(
        SchemaCase{"true",
                   {"1", "-0.5e+10", "\"a\\u00e4\\n\"", "[1, {\"a\":null}]"},
                   {"01", "1.", ".5", "\"\\ud800\"", "\"\n\"", "[1,]", "nul"}},
        SchemaCase{R"({"type": "integer"})",
                   {"0", "-7", "120", "1.0", "1e3", "-0", "10e-1"},
                   {"-", "00", "1.5", "\"1\"", "1e-1", "15e-2"}},
        SchemaCase{R"({"type": "integer", "minimum": -12, "maximum": 345})",
                   {"-12", "-9", "0", "99", "100", "345"},
                   {"-13", "-20", "346", "400", "1000", "0.5"}},
        SchemaCase{R"({"type": "integer", "exclusiveMinimum": 9.5})",
                   {"10", "11", "99", "100", "12345"},
                   {"9", "0", "-10"}},
        SchemaCase{R"({"type": "integer", "exclusiveMaximum": -5})",
                   {"-6", "-10", "-99"},
                   {"-5", "-1", "0", "6"}},
        SchemaCase{R"({"type": ["string", "null"], "maxLength": 2})",
                   {"null", "\"\"", "\"a\xC3\xA4\"", "\"\\u00e4\\\"\""},
                   {"\"abc\"", "1"}},
        SchemaCase{R"({"type": "string", "pattern": "^a.\"$"})",
                   {"\"ax\\\"\""},
                   {"\"ax\"", "\"xax\\\"\""}},
        SchemaCase{R"({"type": "string", "pattern": "b+"})",
                   {"\"b\"", "\"abbc\""},
                   {"\"\"", "\"ac\""}},
        SchemaCase{R"({"type": "string", "format": "date-time"})",
                   {"\"2026-11-24T18:00:59.25+01:00\""},
                   {"\"2026-13-24T18:00:59Z\"", "\"2026-11-24\""}},
        SchemaCase{R"({"enum": ["a\"b", 1, null, [1, "x"]]})",
                   {"\"a\\\"b\"", "1", "null", "[1,\"x\"]"},
                   {"\"a\"", "2", "[1]"}},
        SchemaCase{R"({"type": "array", "items": {"type": "boolean"},
                       "minItems": 1, "maxItems": 2})",
                   {"[true]", "[false,true]", "[ true ,\n  false ]"},
                   {"[]", "[true,true,true]", "[1]"}},
        SchemaCase{R"({"type": "array", "prefixItems": [{"const": 1},
                       {"const": 2}], "items": false, "minItems": 1})",
                   {"[1]", "[1,2]"},
                   {"[]", "[2]", "[1,2,3]"}},
        SchemaCase{R"({"type": "array", "prefixItems": [{"const": 1}],
                       "items": {"const": 3}, "minItems": 3})",
                   {"[1,3,3]", "[1,3,3,3]"},
                   {"[1,3]", "[3,3,3]"}},
        SchemaCase{R"({"type": "object", "properties": {
                         "a": {"type": "integer"}, "b": {"type": "null"},
                         "c": {"type": "boolean"}},
                       "required": ["b"], "additionalProperties": false})",
                   {"{\"b\":null}", "{\"a\":1,\"b\":null}",
                    "{ \"a\": 1, \"b\": null, \"c\": true }"},
                   {"{}", "{\"a\":1}", "{\"b\":null,}", "{\"b\":null,\"d\":1}",
                    "{\"b\":1}"}},
        SchemaCase{R"({"type": "object", "properties": {"ab": {"const": 1}},
                       "additionalProperties": {"type": "string"}})",
                   {"{}", "{\"ab\":1}", "{\"a\":\"x\",\"abc\":\"\"}",
                    "{\"ab\":1,\"\":\"x\"}"},
                   {"{\"ab\":\"x\"}", "{\"a\\u0062\":\"x\"}", "{\"x\":1}",
                    "{\"ab\":1,\"ab\":\"x\"}"}},
        // Without additionalProperties the listed members are all there are,
        // but for required ones.
        SchemaCase{R"({"type": "object", "properties": {"a": {"const": 1}}})",
                   {"{}", "{\"a\":1}"},
                   {"{\"b\":1}", "{\"a\":1,\"b\":1}"}},
        SchemaCase{
            R"({"type": "object", "properties": {}})", {"{}"}, {"{\"b\":1}"}},
        SchemaCase{R"({"properties": {"a": {"const": 1}}, "required": ["b"],
                       "type": "object"})",
                   {"{\"b\":2}", "{\"a\":1,\"b\":2}"},
                   {"{}", "{\"b\":2,\"c\":3}"}},
        SchemaCase{R"({"type": "object", "properties": {"a": {"const": 1}},
                       "additionalProperties": true})",
                   {"{\"a\":1,\"b\":2}"},
                   {"{\"a\":2}"}},
        SchemaCase{R"({"required": ["x"]})",
                   {"{\"x\":1}", "{\"y\":2,\"x\":1}", "1"},
                   {"{}"}},
        SchemaCase{R"({"$ref": "#/$defs/tree", "$defs": {"tree": {
                         "type": "object", "properties": {"next": {"anyOf":
                         [{"type": "null"}, {"$ref": "#/$defs/tree"}]}},
                         "required": ["next"], "additionalProperties": false}}})",
                   {"{\"next\":null}", "{\"next\":{\"next\":null}}"},
                   {"{}", "{\"next\":{}}", "null"}},
        SchemaCase{R"({"oneOf": [
                         {"type": "object", "properties": {"k": {"const": "a"},
                          "v": {"type": "integer"}}, "required": ["k", "v"],
                          "additionalProperties": false},
                         {"type": "object", "properties": {"k": {"const": "b"}},
                          "required": ["k"], "additionalProperties": false}]})",
                   {"{\"k\":\"a\",\"v\":1}", "{\"k\":\"b\"}"},
                   {"{\"k\":\"a\"}", "{\"k\":\"b\",\"v\":1}"}}));

TEST(Constrain, SchemasThatAreWrongNameTheirPlace) {
  EXPECT_THAT(failureOfSchema(R"({"properties": {"a~/b": {"not": 1}}})"),
              HasSubstr("schema at \"#/properties/a~0~1b/not\": a schema is "
                        "an object or a boolean"));
  EXPECT_THAT(failureOfSchema(R"({"type": "number", "minimum": "1"})"),
              HasSubstr("#/minimum"));
  EXPECT_THAT(failureOfSchema(R"({"$ref": "other.json"})"),
              HasSubstr("other documents"));
  EXPECT_THAT(failureOfSchema(R"({"$ref": "#/x/9"})"), HasSubstr("#/$ref"));
  EXPECT_THAT(failureOfSchema(R"({"$ref": "#"})"), HasSubstr("never ends"));
  EXPECT_THAT(failureOfSchema(R"({"type": "strin"})"), HasSubstr("#/type"));
  EXPECT_THAT(failureOfSchema(R"s({"type": "string", "pattern": "(a"})s"),
              HasSubstr("#/pattern"));
  EXPECT_THAT(failureOfSchema(R"({"anyOf": [{"enum": 1}], "type": "null"})"),
              HasSubstr("#/anyOf/0/enum"));
  EXPECT_THAT(
      failureOfSchema(R"({"required": ["a"], "additionalProperties": false,
                          "type": "object"})"),
      HasSubstr("no value fits"));
  EXPECT_THAT(failureOfSchema(R"({"type": "array", "uniqueItems": 1})"),
              HasSubstr("#/uniqueItems"));
  EXPECT_THAT(failureOfSchema(R"({"minItems": -1})"), HasSubstr("#/minItems"));
  EXPECT_THAT(failureOfSchema("false"), HasSubstr("no value fits"));
  EXPECT_THAT(failureOfSchema(R"({"not": {}})"), HasSubstr("no value fits"));
}

/// Nothing is compiled once the deadline has passed.
TEST(Constrain, CompilingEndsWithItsDeadline) {
  const Deadline passed = moetest::passedDeadline();
  const auto takes = HasSubstr("takes longer than");
  const auto schema = nlohmann::ordered_json::parse(
      R"({"anyOf": [{"type": "object"}, {"enum": [1]}], "minProperties": 1})");
  EXPECT_THAT(parseJsonSchema(schema, {}, passed).status().message(), takes);
  Grammar plain;
  EXPECT_THAT(addPlainText(plain, schema, "", passed).status().message(),
              takes);
  EXPECT_THAT(parseGbnf("root ::= \"a\"", passed).status().message(), takes);
  EXPECT_THAT(Automaton::compile(*parseGbnf("root ::= \"a\""),
                                 Automaton::kMaxStates, passed)
                  .status()
                  .message(),
              takes);
  // Each stage looks at the time: none of them is the only one that does.
  auto source = SchemaSource::read(schema);
  ASSERT_TRUE(source);
  EXPECT_THAT(mergedSchema(source->root, *source, passed).status().message(),
              takes);
  EXPECT_THAT(SchemaSource::read(schema, passed).status().message(), takes);
  EXPECT_THAT(SchemaTranslator(*source, {}, passed).run().status().message(),
              takes);
}

TEST(Constrain, WithoutSpacesATextHasOneForm) {
  StatusOr<Grammar> grammar =
      parseJsonSchema(nlohmann::ordered_json::parse(
                          R"({"type": "array", "items": {"type": "integer"}})"),
                      {.hasSpaces = false});
  ASSERT_TRUE(grammar.isOk());
  EXPECT_TRUE(accepts(*grammar, "[1,2]"));
  EXPECT_FALSE(accepts(*grammar, "[1, 2]"));
  EXPECT_TRUE(accepts(jsonObjects(), "{\"a\": [1, {}]}"));
  EXPECT_FALSE(accepts(jsonObjects(), "[1]"));
}

/// A step of a match may pass over all of the expression, so that masks count
/// the more work the longer it is.
TEST(BacktrackingRegex, WorkGrowsWithTheExpression) {
  auto workOf = [](const std::string &pattern) {
    auto regex = BacktrackingRegex::compile(pattern, RegexMatch::Anywhere);
    EXPECT_TRUE(regex.isOk());
    const uint64_t before = BacktrackingRegex::workOfThread();
    EXPECT_FALSE((*regex)->matches("aaaa"));
    return BacktrackingRegex::workOfThread() - before;
  };
  const uint64_t small = workOf("(?=b)c");
  EXPECT_GT(small, 0u);
  EXPECT_GT(workOf("(?=b)(" + std::string(1000, '|') + ")c"), 20 * small);
  EXPECT_FALSE(
      BacktrackingRegex::compile(std::string(5000, 'a'), RegexMatch::Anywhere)
          .isOk());
}

} // namespace
