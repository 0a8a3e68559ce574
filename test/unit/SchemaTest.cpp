//===- SchemaTest.cpp - Masks that allow all that a schema allows ---------===//

#include "runtime/constrain/Gbnf.h"
#include "runtime/constrain/GrammarCache.h"
#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/Matcher.h"
#include "runtime/constrain/SchemaValidator.h"

#include <array>
#include <chrono>
#include <ctime>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

using namespace moert;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

namespace {
constexpr int32_t kEnd = 256;

/// Every byte is a token; another one ends texts.
std::shared_ptr<const TokenTrie> byteTrie() {
  static const auto shared = [] {
    static std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte)
      bytes.emplace_back(1, char(byte));
    std::vector<std::string_view> tokens(bytes.begin(), bytes.end());
    tokens.emplace_back("");
    return std::make_shared<const TokenTrie>(tokens, std::vector{kEnd});
  }();
  return shared;
}

StatusOr<std::shared_ptr<const Automaton>> compiled(const Json &schema) {
  MOE_ASSIGN_OR_RETURN(Grammar grammar, parseJsonSchema(schema));
  MOE_ASSIGN_OR_RETURN(Automaton automaton, Automaton::compile(grammar));
  return std::make_shared<const Automaton>(std::move(automaton));
}

Matcher matcherOf(const Json &schema) {
  auto automaton = compiled(schema);
  EXPECT_TRUE(automaton.isOk()) << schema << automaton.status().message();
  return Matcher(*automaton, byteTrie());
}

bool accepts(Matcher &matcher, std::string_view text) {
  matcher.restart();
  for (char byte : text)
    if (!matcher.accept(uint8_t(byte)))
      return false;
  return matcher.accept(kEnd).isOk();
}

bool accepts(const char *schema, std::string_view text) {
  Matcher matcher = matcherOf(Json::parse(schema));
  return accepts(matcher, text);
}

std::string failure(const Json &schema) {
  auto automaton = compiled(schema);
  EXPECT_FALSE(automaton.isOk());
  return automaton.isOk() ? "" : automaton.status().message();
}

bool isSet(std::span<const uint64_t> mask, int32_t token) {
  return mask[size_t(token) / 64] >> (token % 64) & 1;
}

/// Writes a value in a random spelling: order of members, white space, escapes
/// and forms of numbers.
std::string spelled(const Json &value, std::mt19937 &random) {
  auto space = [&] {
    std::string result;
    while (random() % 3 == 0)
      result += " \n\t\r"[random() % 4];
    return result;
  };
  auto text = [&](const std::string &content) {
    std::string result = "\"";
    for (uint32_t c : codePointsOf(content)) {
      const bool mustEscape = c < 0x20 || c == '"' || c == '\\';
      if (!mustEscape && random() % 4 != 0) {
        result += encodeUtf8(c);
        continue;
      }
      auto unit = [&](uint32_t value) {
        char digits[8];
        std::snprintf(digits, sizeof digits,
                      random() % 2 ? "\\u%04x" : "\\u%04X", value);
        result += digits;
      };
      if (c < 0x10000)
        unit(c);
      else {
        unit(0xD800 + ((c - 0x10000) >> 10));
        unit(0xDC00 + ((c - 0x10000) & 0x3FF));
      }
    }
    return result + '"';
  };
  if (value.is_string())
    return text(value.get<std::string>());
  if (value.is_number_integer())
    return value.dump() + (random() % 3 == 0 ? ".0" : random() % 2 ? "e0" : "");
  if (!value.is_structured())
    return value.dump();
  std::vector<std::string> parts;
  for (const auto &[name, inner] : value.items())
    parts.push_back(space() +
                    (value.is_object() ? text(name) + space() + ":" : "") +
                    space() + spelled(inner, random) + space());
  if (value.is_object())
    std::shuffle(parts.begin(), parts.end(), random);
  std::string joined = space();
  for (size_t i = 0; i < parts.size(); ++i)
    joined += (i > 0 ? "," : "") + parts[i];
  return value.is_object() ? "{" + joined + "}" : "[" + joined + "]";
}

TEST(Schema, EveryOrderAndSpellingOfAValuePasses) {
  const std::pair<const char *, const char *> cases[] = {
      {R"({"type": "object", "properties": {"path": {"type": "string"},
           "pattern": {"type": "string"}, "n": {"type": "integer"}},
           "required": ["pattern"]})",
       R"({"pattern": "x/\"\n", "path": "caf\u00e9", "n": 7})"},
      {R"({"properties": {"a": {}, "b": {}, "c": {}, "d": {}, "e": {}},
           "required": ["a", "b", "c", "d", "e"]})",
       R"({"a": [1, 2], "b": null, "c": {"x": {}}, "d": true, "e": "\ud83d\udc4d"})"},
      {R"({"type": "object", "properties": {"k": {"const": "caf\u00e9"},
           "u": {"format": "uuid"}, "p": {"pattern": "^caf.$"}},
           "additionalProperties": {"enum": ["\ud83d\udc4d", 3, [1, {"y": 2}]]}})",
       R"({"k": "caf\u00e9", "u": "123E4567-e89b-12d3-A456-426614174000",
           "p": "caf\u00e9", "z": "\ud83d\udc4d", "y": [1, {"y": 2}], "x": 3})"}};
  std::mt19937 random(3);
  for (const auto &[schema, value] : cases) {
    Matcher matcher = matcherOf(Json::parse(schema));
    for (int i = 0; i < 50; ++i) {
      const std::string text = spelled(Json::parse(value), random);
      EXPECT_TRUE(accepts(matcher, text)) << schema << "\n" << text;
    }
  }
}

TEST(Schema, MembersAreThereOnceAndAllThatAreRequired) {
  constexpr const char *schema =
      R"({"type": "object", "properties": {"a": {"type": "integer"},
          "ab": {"type": "integer"}, "b": {"type": "integer"}},
          "required": ["ab", "b"], "additionalProperties": {"type": "null"}})";
  for (const char *text :
       {R"({"b":1,"ab":2})", R"({"ab":2,"x":null,"b":1,"y":null,"a":3})"})
    EXPECT_TRUE(accepts(schema, text)) << text;
  for (const char *text :
       {R"({"b":1})", R"({"b":1,"ab":2,"b":3})", R"({"b":1,"ab":2,"c":3})",
        R"({"b":1,"ab":2,"\u0061":null})", R"({"b":1,"ab":2,})"})
    EXPECT_FALSE(accepts(schema, text)) << text;
}

TEST(Schema, DatesExist) {
  constexpr const char *date = R"({"format": "date", "type": "string"})";
  for (const char *text :
       {"\"2024-02-29\"", "\"2000-02-29\"", "\"2023-04-30\"", "\"0001-01-01\""})
    EXPECT_TRUE(accepts(date, text)) << text;
  for (const char *text : {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-02-31\"",
                           "\"2023-04-31\"", "\"0000-01-01\""})
    EXPECT_FALSE(accepts(date, text)) << text;
}

// What can no longer become valid is refused at once, not at the end, so that a
// model cannot run into a dead end.
TEST(Schema, NumbersHaveNoDeadEnds) {
  std::mt19937 random(17);
  for (
      const char *schema :
      {R"({"type": "integer", "minimum": 5, "maximum": 10})",
       R"({"type": "integer", "minimum": -9007199254740993,
            "maximum": 9223372036854775807})",
       R"({"type": "integer", "minimum": 101, "maximum": 150, "multipleOf": 7})",
       R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})",
       R"({"type": "number", "minimum": 0.5, "maximum": 0.75})",
       R"({"type": "integer"})",
       R"({"type": "number", "minimum": -3.5, "multipleOf": 0.25})",
       R"({"const": 99.99})", R"({"enum": [120, -7]})"}) {
    Matcher matcher = matcherOf(Json::parse(schema));
    SchemaSource source = *SchemaSource::read(Json::parse(schema));
    SchemaValidator validator(source);
    for (int round = 0; round < 40; ++round) {
      matcher.restart();
      std::string text;
      while (true) {
        auto mask = matcher.allowed();
        ASSERT_TRUE(mask.isOk());
        std::vector<int32_t> choices;
        for (int32_t token = 0; token <= kEnd; ++token)
          if (isSet(*mask, token))
            choices.push_back(token);
        ASSERT_FALSE(choices.empty()) << schema << " " << text;
        // A long text ends as soon as it may.
        int32_t token = choices[random() % choices.size()];
        if (text.size() > 12 && choices.back() == kEnd)
          token = kEnd;
        ASSERT_LT(text.size(), 200u) << schema << " " << text;
        ASSERT_TRUE(matcher.accept(token).isOk());
        if (token == kEnd)
          break;
        text += char(token);
      }
      EXPECT_TRUE(validator.accepts(source.root, nlohmann::json::parse(text)))
          << schema << " " << text;
    }
  }
}

/// The text of an integer times a power of ten, in one of the ways to write it.
std::string written(std::string digits, int exponent, std::mt19937 &random) {
  const auto way = random() % 3;
  const auto length = int(digits.size());
  auto withPoint = [](std::string text, size_t at) {
    return at == text.size() ? text : text.insert(at, ".");
  };
  if (way == 0) // Written with an exponent, as programs print large numbers.
    return withPoint(digits, 1) + "e" + std::to_string(exponent + length - 1);
  if (exponent >= 0)
    return digits + std::string(size_t(exponent), '0') + (way == 1 ? ".0" : "");
  if (-exponent >= length)
    return "0." + std::string(size_t(-exponent - length), '0') + digits;
  return withPoint(digits, size_t(length + exponent));
}

// Numbers are held to their rules as they are written, in every digit. The
// judge counts in units of 10^-6 and knows no text.
TEST(Schema, NumbersAreComparedExactly) {
  using Int = __int128;
  std::mt19937 random(23);
  auto digitsOf = [](Int value) {
    std::string digits;
    for (; value > 0; value /= 10)
      digits.insert(digits.begin(), char('0' + int(value % 10)));
    return digits;
  };
  constexpr int kPlaces = 6;
  constexpr Int kUnit = 1'000'000;
  int accepted = 0, refused = 0, scientific = 0;
  for (int round = 0; round < 400; ++round) {
    // Bounds that are one apart in their last digit, and steps.
    const uint64_t bound =
        (uint64_t(random()) << 32 | random()) >> random() % 60;
    const bool isInteger = random() % 2;
    const int step = std::array{0, 0, 1, 7, 12, 250}[random() % 6];
    Json schema = {{"type", isInteger ? "integer" : "number"},
                   {random() % 2 ? "minimum" : "exclusiveMinimum", bound}};
    if (random() % 2)
      schema["maximum"] = bound + std::min<uint64_t>(random() % 1000, ~bound);
    if (step > 0)
      schema["multipleOf"] = random() % 2 ? Json(step) : Json(step / 1000.0);
    auto automaton = compiled(schema);
    std::optional<Matcher> matcher;
    if (automaton)
      matcher.emplace(*automaton, byteTrie());
    for (int i = 0; i < 8; ++i) {
      Int value = Int(bound) * kUnit;
      value += Int(random() % 2001) * (random() % 2 ? kUnit : kUnit / 1000);
      value -= random() % 3 ? 0 : kUnit / 1000;
      if (value <= 0)
        continue;
      Int digits = value;
      int exponent = -kPlaces;
      for (; digits % 10 == 0; ++exponent)
        digits /= 10;
      // Longer ones are left out where they are no integers.
      if (digits >= Int(1e10) * Int(1e10))
        continue;
      const std::string text = written(digitsOf(digits), exponent, random);
      Int unit = isInteger ? kUnit : 1;
      bool expected = value % unit == 0;
      if (auto by = schema.find("multipleOf"); by != schema.end())
        expected &=
            value % (by->is_number_integer() ? Int(step) * kUnit
                                             : Int(step) * kUnit / 1000) ==
            0;
      expected &= schema.contains("minimum") ? value >= Int(bound) * kUnit
                                             : value > Int(bound) * kUnit;
      if (schema.contains("maximum"))
        expected &= value <= Int(schema["maximum"].get<uint64_t>()) * kUnit;
      EXPECT_EQ(matcher && accepts(*matcher, text), expected)
          << schema << " " << text;
      (expected ? accepted : refused) += 1;
      scientific += expected && text.find('e') != text.npos;
    }
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 200);
  EXPECT_GT(scientific, 50);
}

TEST(Schema, IntegersMayHaveExponents) {
  constexpr const char *schema =
      R"({"type": "integer", "minimum": 10, "maximum": 1500, "multipleOf": 5})";
  for (const char *text : {"15", "15.0", "1.5e1", "1.5E+1", "1.500e3", "150e-1",
                           "1500.0e0", "1e1"})
    EXPECT_TRUE(accepts(schema, text)) << text;
  for (const char *text :
       {"1.5", "1.5e0", "1.51e2", "1.505e3", "1.6e1", "15e-1", "1.5e4", "9.99"})
    EXPECT_FALSE(accepts(schema, text)) << text;
}

TEST(Schema, StringsThatCannotBecomeValidAreNotBegun) {
  // 'b' could only be followed by what makes the text too long.
  Matcher matcher = matcherOf(Json::parse(
      R"({"type": "string", "pattern": "^(a|bcde)$", "maxLength": 2})"));
  ASSERT_TRUE(matcher.accept('"').isOk());
  auto mask = matcher.allowed();
  ASSERT_TRUE(mask.isOk());
  EXPECT_TRUE(isSet(*mask, 'a'));
  EXPECT_FALSE(isSet(*mask, 'b'));
  EXPECT_TRUE(isSet(*mask, '\\'));
  EXPECT_THAT(
      failure(Json::parse(
          R"({"type": "string", "pattern": "^a{3}$", "minLength": 4})")),
      HasSubstr("no value fits"));
}

TEST(Schema, WhatNoGrammarDescribesIsCheckedAtTheEnd) {
  struct {
    const char *schema;
    std::vector<const char *> yes, no;
  } cases[] = {
      {R"({"type": "array", "uniqueItems": true})",
       {"[]", "[1,2]", "[1,true,\"1\"]", "[{\"a\":1},{\"a\":2}]"},
       {"[1,1.0]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]"}},
      {R"({"type": "array", "contains": {"const": 7}, "maxContains": 1})",
       {"[7]", "[1,7,2]"},
       {"[]", "[1]", "[7,7]"}},
      {R"({"type": "integer", "multipleOf": 3})",
       {"111111111111111111111111111111", "-9", "3.0"},
       {"111111111111111111111111111112", "4"}},
      {R"({"not": {"const": "x"}})", {"\"xy\"", "1", "{\"x\":1}"}, {"\"x\""}},
      {R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})",
       {"1", "2.5", "1.0"},
       {"3", "1.5"}},
      {R"({"dependentRequired": {"a": ["b"]}})",
       {"{\"b\":1}", "{\"b\":1,\"a\":2}", "{\"a\":2,\"b\":1}"},
       {"{\"a\":1}"}},
      {R"({"if": {"properties": {"k": {"const": 1}},
                  "additionalProperties": true},
           "then": {"required": ["v"]}, "else": {"maxProperties": 1}})",
       {"{\"k\":1,\"v\":2}", "{\"k\":2}"},
       {"{\"k\":1}", "{\"k\":2,\"v\":1}"}},
      {R"({"type": "object", "minProperties": 2, "maxProperties": 2})",
       {"{\"a\":1,\"b\":2}"},
       {"{\"a\":1}", "{\"a\":1,\"a\":2}", "{\"a\":1,\"b\":1,\"c\":1}"}},
      {R"({"type": "string", "pattern": "^(.)\\1$"})",
       {"\"aa\"", "\"\\u0061a\""},
       {"\"ab\""}},
      {R"({"patternProperties": {"^s": {"type": "string"}, "n$": {"minLength":
           2}}, "additionalProperties": {"type": "integer"}})",
       {"{\"sn\":\"ab\",\"s\":\"\",\"n\":\"xx\",\"a\":1}"},
       {"{\"sn\":\"a\"}", "{\"s\":1}", "{\"a\":\"b\"}"}},
      {R"({"allOf": [{"properties": {"a": {"type": "integer"}}},
                     {"properties": {"b": {"type": "string"}},
                      "required": ["b"]}], "type": "object"})",
       {"{\"b\":\"\",\"a\":1}", "{\"b\":\"\"}"},
       {"{\"a\":1}", "{\"a\":\"\",\"b\":\"\"}", "{\"b\":\"\",\"c\":1}"}}};
  for (const auto &each : cases) {
    for (const char *text : each.yes)
      EXPECT_TRUE(accepts(each.schema, text)) << each.schema << " " << text;
    for (const char *text : each.no)
      EXPECT_FALSE(accepts(each.schema, text)) << each.schema << " " << text;
  }
  // An item that is there already is refused before the list would end.
  Matcher matcher = matcherOf(Json::parse(
      R"({"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true})"));
  for (char byte : std::string_view("[\"a\",\""))
    ASSERT_TRUE(matcher.accept(uint8_t(byte)).isOk());
  ASSERT_TRUE(matcher.accept('a').isOk());
  EXPECT_FALSE(matcher.accept('"').isOk());
  // After the last value that there is, no comma leads on.
  for (const char *items : {R"({"enum": ["a", "b"]})",
                            R"({"type": "string", "enum": ["a", "b"]})"}) {
    Matcher all = matcherOf({{"type", "array"},
                             {"uniqueItems", true},
                             {"items", Json::parse(items)}});
    for (char byte : std::string_view("[\"a\", \"b\""))
      ASSERT_TRUE(all.accept(uint8_t(byte)).isOk());
    EXPECT_FALSE(all.accept(',').isOk()) << items;
  }
}

TEST(Schema, WordsThatDoNotApplyHaveNoEffect) {
  for (
      const char *schema :
      {R"({"type": "integer", "maxLength": 3, "pattern": "x", "items": false})",
       R"({"enum": [5, "a"], "additionalProperties": false, "format": "uri"})",
       R"({"anyOf": [{"type": "integer"}], "type": ["integer", "string"],
            "discriminator": {"propertyName": "k"}, "x-order": 3,
            "contentMediaType": "text/plain", "example": "a"})",
       R"({"$ref": "#/$defs/a%20b", "description": "d", "$defs": {"a b":
            {"type": "integer", "format": "int64", "minimum": -9223372036854775808,
             "maximum": 9223372036854775807}}})",
       R"({"type": "integer", "minimum": 0, "exclusiveMinimum": true})"})
    EXPECT_TRUE(accepts(schema, "5")) << schema;
  EXPECT_TRUE(accepts(R"({"type": "string", "nullable": true})", "null"));
  EXPECT_TRUE(accepts(R"({"items": [{"type": "null"}, true]})", "[null,1,2]"));
  EXPECT_FALSE(accepts(R"({"type": "array", "items": [{"type": "null"}],
                           "additionalItems": false})",
                       "[null,1]"));
  EXPECT_FALSE(accepts(R"({"type": "integer", "minimum": 0,
                           "exclusiveMinimum": true})",
                       "0"));
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

/// Seconds until a schema is compiled or refused.
double secondsFor(const Json &schema) {
  const auto begun = std::chrono::steady_clock::now();
  auto automaton = compiled(schema);
  if (!automaton) {
    EXPECT_EQ(automaton.status().code(), StatusCode::Usage);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun)
      .count();
}

// Nothing is as deep or as large as the input where that could end the process.
TEST(Schema, HugeSchemasAreRefusedOrWork) {
  Json list = Json::array(), names = Json::array(), values = Json::array();
  for (int i = 0; i < 30'000; ++i) {
    list.push_back(true);
    names.push_back("a" + std::to_string(i));
    values.push_back({{"const", "v" + std::to_string(i)}});
  }
  Json nested = {{"type", "integer"}}, deep = {{"type", "integer"}};
  for (int i = 0; i < 60; ++i)
    nested = i % 2 ? Json{{"type", "array"}, {"items", nested}}
                   : Json{{"properties", {{"a", nested}}}};
  for (int i = 0; i < 3000; ++i)
    deep = {{"items", std::move(deep)}};
  // Each schema refers to the next one twice.
  Json doubled = {{"$ref", "#/$defs/a0"}};
  for (int i = 0; i < 40; ++i) {
    const Json next = {{"$ref", "#/$defs/a" + std::to_string(i + 1)}};
    doubled["$defs"]["a" + std::to_string(i)] = {
        {"allOf", {next, next}}, {"not", {{"anyOf", {next, {{"const", 1}}}}}}};
  }
  doubled["$defs"]["a40"] = true;
  const std::string longName(200'000, 'a');
  for (const Json &schema :
       {Json{{"prefixItems", list}}, Json{{"required", names}},
        Json{{"oneOf", values}}, Json{{"anyOf", values}}, Json{{"enum", names}},
        Json{{"properties", {{longName, true}}},
             {"additionalProperties", true}},
        nested, deep, doubled,
        Json{{"type", "string"}, {"pattern", "((a{1000}){1000}){1000}"}},
        Json{
            {"type", "string"},
            {"pattern", std::string(100'000, '(') + std::string(100'000, ')')}},
        Json{{"type", "string"}, {"maxLength", 1'000'000}},
        Json{{"type", "array"}, {"minItems", 999'999}, {"maxItems", 1'000'000}},
        Json{{"$ref", "#/$defs/a"},
             {"$defs", {{"a", {{"allOf", {{{"$ref", "#/$defs/a"}}}}}}}}},
        Json{{"$defs",
              {{"a",
                {{"allOf", {{{"$ref", "#/$defs/a"}}, {{"type", "object"}}}}}}}},
             {"$ref", "#/$defs/a"}}})
    EXPECT_LT(secondsFor(schema), 2) << schema.dump().substr(0, 80);
  EXPECT_TRUE(compiled(nested).isOk());
  if (compiled(doubled).isOk()) {
    Matcher matcher = matcherOf(doubled);
    EXPECT_FALSE(accepts(matcher, "1"));
  }
  Matcher named = matcherOf({{"type", "object"},
                             {"properties", {{longName, true}}},
                             {"additionalProperties", true}});
  EXPECT_TRUE(accepts(named, "{\"" + longName + "\":1,\"aa\":2}"));
}

TEST(Schema, CountsCostNoStates) {
  auto states = [](int most) {
    auto automaton =
        compiled({{"type", "array"},
                  {"items", {{"type", "string"}, {"maxLength", most}}},
                  {"maxItems", most}});
    return (*automaton)->stateCount();
  };
  EXPECT_EQ(states(10), states(1'000'000));
  Matcher matcher =
      matcherOf({{"type", "string"}, {"minLength", 2}, {"maxLength", 5'000}});
  EXPECT_FALSE(accepts(matcher, "\"a\""));
  EXPECT_TRUE(accepts(matcher, "\"" + std::string(5'000, 'x') + "\""));
  EXPECT_FALSE(accepts(matcher, "\"" + std::string(5'001, 'x') + "\""));
}

TEST(Schema, GrammarsOfOneTextAreShared) {
  GrammarCache cache;
  int made = 0;
  auto get = [&](const std::string &key) {
    return cache.get(key, [&] {
      ++made;
      return compiled({{"const", key}});
    });
  };
  auto first = get("a");
  ASSERT_TRUE(first.isOk());
  EXPECT_EQ(*get("a"), *first);
  EXPECT_NE(*get("b"), *first);
  EXPECT_EQ(made, 2);
  for (size_t i = 0; i < GrammarCache::kMost; ++i)
    EXPECT_TRUE(get(std::to_string(i)).isOk());
  EXPECT_NE(*get("a"), *first);
  auto failed = cache.get("c", [] { return compiled({{"type", "no"}}); });
  EXPECT_EQ(failed.status().code(), StatusCode::Usage);
  EXPECT_TRUE(get("c").isOk());
}

// A mask is made in pieces, and is the same as in one.
TEST(Schema, MasksAreMadeInPieces) {
  const Json schema = Json::parse(
      R"({"properties": {"a": {"type": "string", "maxLength": 3},
          "b": {"type": "array", "uniqueItems": true}}, "minProperties": 1})");
  Matcher whole = matcherOf(schema), pieces = matcherOf(schema);
  int calls = 0;
  for (char byte : std::string_view("{\"b\":[1,{}],\"a\":\"x\"}")) {
    auto mask = whole.allowed();
    ASSERT_TRUE(mask.isOk());
    while (true) {
      auto isReady = pieces.prepare(3);
      ASSERT_TRUE(isReady.isOk());
      ++calls;
      if (*isReady)
        break;
    }
    EXPECT_TRUE(std::ranges::equal(*mask, *pieces.allowed()));
    ASSERT_TRUE(whole.accept(uint8_t(byte)).isOk());
    ASSERT_TRUE(pieces.accept(uint8_t(byte)).isOk());
  }
  EXPECT_GT(calls, 200);
}

// Which tokens stay inside a string is found once, not for each place that a
// string may be in: the second mask takes no more than trying what leaves the
// string, whatever the vocabulary is.
TEST(Schema, MasksInsideTextsAreFoundOnce) {
  auto grammar = parseGbnf("root ::= \"[\" (item (\",\" item)*)? \"]\"\n"
                           "item ::= root | string\n"
                           "string ::= \"\\\"\" [^\\\"]* \"\\\"\"\n");
  ASSERT_TRUE(grammar.isOk()) << grammar.status().message();
  auto ofText =
      std::make_shared<const Automaton>(*Automaton::compile(*grammar));
  auto ofSchema = compiled(Json::parse(
      R"({"$defs": {"a": {"type": "array", "items": {"anyOf": [
          {"$ref": "#/$defs/a"}, {"type": "string", "maxLength": 9}]}}},
          "$ref": "#/$defs/a"})"));
  ASSERT_TRUE(ofSchema.isOk());
  // Bytes, 20,000 words that stay inside a string, and an end.
  std::vector<std::string> words;
  for (int byte = 0; byte < 256; ++byte)
    words.emplace_back(1, char(byte));
  for (int i = 0; i < 20'000; ++i)
    words.push_back("w" + std::to_string(i));
  words.emplace_back();
  const auto trie = std::make_shared<const TokenTrie>(
      std::vector<std::string_view>(words.begin(), words.end()),
      std::vector{int32_t(words.size()) - 1});
  for (const auto &automaton : {ofText, *ofSchema}) {
    Matcher matcher(automaton, trie);
    constexpr int kSteps = 500;
    auto piecesAfter = [&](std::string_view text) {
      for (char byte : text)
        EXPECT_TRUE(matcher.accept(uint8_t(byte)).isOk()) << text;
      int pieces = 1;
      for (; !*matcher.prepare(kSteps); ++pieces)
        ;
      return pieces;
    };
    const int first = piecesAfter("[\"a");
    const int second = piecesAfter("\",[[\"b");
    EXPECT_GT(first, 20'000 / kSteps);
    EXPECT_LT(20 * second, first);
  }
}

// What is listed takes about its bytes, in whatever keyword it is.
TEST(Schema, LongListsWork) {
  Json texts = Json::array(), names = Json::array(), consts = Json::array(),
       properties = Json::object(), constant = Json::object();
  for (int i = 0; i < 100'000; ++i)
    texts.push_back("text " + std::to_string(i * 7919 % 100'000));
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "n" + std::to_string(i);
    names.push_back(name);
    properties[name] = {{"type", i % 2 ? "string" : "integer"}};
    constant[name] = i;
  }
  for (int i = 0; i < 4'000; ++i)
    consts.push_back({{"const", "c" + std::to_string(i)}});
  std::string all = "{";
  for (const Json &name : names)
    all += (all.size() > 1 ? "," : "") + name.dump() + ":1";
  const struct {
    Json schema;
    std::string yes, no;
  } cases[] = {{{{"enum", texts}}, "\"te\\u0078t 77\"", "\"text 100000\""},
               {{{"type", "object"}, {"properties", properties}},
                R"({"n9999": "x", "n8": 1})",
                R"({"n9999": "x", "n9999": "y"})"},
               {{{"type", "object"},
                 {"properties", properties},
                 {"additionalProperties", true}},
                R"({"n10000": [], "n8": 1})",
                R"({"n8": "x"})"},
               {{{"type", "object"}, {"required", names}},
                all + "}",
                all.substr(0, 90'000) + "}"},
               {{{"const", constant}}, constant.dump(), "{}"},
               {{{"anyOf", consts}}, "\"c3999\"", "\"c4000\""},
               {{{"oneOf", consts}}, "\"c3999\"", "\"c4000\""}};
  for (const auto &each : cases) {
    const std::clock_t begun = std::clock();
    Matcher matcher = matcherOf(each.schema);
    EXPECT_TRUE(accepts(matcher, each.yes)) << each.yes.substr(0, 80);
    EXPECT_FALSE(accepts(matcher, each.no)) << each.no.substr(0, 80);
    EXPECT_LT(std::clock() - begun, 10 * CLOCKS_PER_SEC);
  }
}

/// 3,000 objects that differ in a constant.
Json manyObjects(const Json &more) {
  Json list = Json::array();
  for (int i = 0; i < 3'000; ++i) {
    Json object = {{"type", "object"},
                   {"properties",
                    {{"kind", {{"const", "k" + std::to_string(i)}}},
                     {"value", {{"type", i % 2 ? "integer" : "string"}}},
                     {"own" + std::to_string(i), {{"type", "null"}}}}},
                   {"required", {"kind", "value"}}};
    object.update(more);
    list.push_back(object);
  }
  return list;
}

TEST(Schema, ManyObjectsAreOneSeries) {
  for (const char *word : {"oneOf", "anyOf"})
    for (bool isOpen : {false, true}) {
      Json schema = {
          {word, manyObjects(isOpen ? Json{{"additionalProperties", true}}
                                    : Json::object())}};
      for (bool hasType : {false, true}) {
        if (hasType)
          schema["type"] = "object";
        Matcher matcher = matcherOf(schema);
        for (const char *text :
             {R"({"kind": "k17", "value": 3})",
              R"({"value": 3, "kind": "k17"})",
              R"({"value": "x", "own8": null, "kind": "k8"})"})
          EXPECT_TRUE(accepts(matcher, text)) << word << isOpen << text;
        for (const char *text :
             {R"({"kind": "k17", "value": "x"})", R"({"value": 3})",
              R"({"value": 3, "kind": "k8"})", R"({})",
              R"({"value": 3, "kind": "k17", "kind": "k17"})"})
          EXPECT_FALSE(accepts(matcher, text)) << word << isOpen << text;
        // A member of another one is an additional one, or none.
        EXPECT_EQ(
            accepts(matcher, R"({"own9": 5, "value": "x", "kind": "k8"})"),
            isOpen);
      }
    }
}

// What no series can be of is refused with its place, not when a text has been
// begun.
TEST(Schema, TooManyChoicesAreRefusedWithTheirPlace) {
  const Json schema = {
      {"properties",
       {{"a/b", {{"oneOf", manyObjects({{"minProperties", 1}})}}}}}};
  EXPECT_THAT(failure(schema),
              HasSubstr("schema at \"#/properties/a~1b/oneOf\": over 1500 "));
}

TEST(Schema, ATextThatTakesTooLongIsRefused) {
  auto automaton = compiled({{"type", "string"}});
  Matcher matcher(*automaton, byteTrie(), {.work = 100, .workPerToken = 10});
  Status status = Status::ok();
  for (int i = 0; i < 1000 && status.isOk(); ++i)
    status = matcher.prepare(20).status();
  EXPECT_EQ(status.code(), StatusCode::DoesNotFit);
  EXPECT_THAT(status.message(), HasSubstr("takes too long"));
}

} // namespace
