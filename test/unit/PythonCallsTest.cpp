// Values and calls in Python's notation: how they are read, and how masks hold
// them to their schemas.
#include "runtime/chat/ValueText.h"
#include "test/unit/FamilyTemplates.h"
#include "test/unit/RoundTrip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moert;
using namespace moetest;
using moetest::Json;

namespace {

/// Random values, and their text as Python or a careless template writes it.
class PythonWriter {
public:
  explicit PythonWriter(uint32_t seed) : random_(seed) {}

  Json value(int depth) {
    switch (below(depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return below(2) == 0;
    case 2:
      return int(below(2000)) - 1000;
    case 3:
      return (double(below(1000)) - 500) / 8;
    case 4:
      return text();
    case 5: {
      Json list = Json::array();
      for (size_t i = below(4); i > 0; --i)
        list.push_back(value(depth - 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (size_t i = below(4); i > 0; --i)
        object[text()] = value(depth - 1);
      return object;
    }
    }
  }
  std::string text() {
    constexpr const char *parts[] = {
        "a",  "'",  "\"",  "\\", "\n", "\xC3\xA9",
        "),", "]",  "=",   "{",  " ",  "\xF0\x9F\x98\x80",
        "\t", "</", "True"};
    std::string all;
    for (size_t i = below(5); i > 0; --i)
      all += parts[below(std::size(parts))];
    return all;
  }

  std::string written(const Json &value) {
    if (value.is_null())
      return word("None", "null");
    if (value.is_boolean())
      return value.get<bool>() ? word("True", "true") : word("False", "false");
    if (value.is_string())
      return quoted(value.get<std::string>());
    if (!value.is_structured())
      return value.dump();
    const bool isTuple = value.is_array() && value.size() > 1 && below(4) == 0;
    std::string all(1, value.is_object() ? '{' : isTuple ? '(' : '[');
    bool isFirst = true;
    for (const auto &[key, item] : value.items()) {
      all += isFirst ? "" : below(2) ? ", " : ",";
      if (value.is_object())
        all += quoted(key) + (below(2) ? ": " : ":");
      all += written(item);
      isFirst = false;
    }
    return all + (value.is_object() ? '}' : isTuple ? ')' : ']');
  }
  std::string quoted(const std::string &text) {
    if (below(3) == 0)
      return Json(text).dump();
    const char quote = below(2) ? '\'' : '"';
    std::string all(1, quote);
    for (char c : text) {
      if (c == quote || c == '\\')
        all += '\\';
      // Line ends stand in single quotes as they are, or as escapes.
      if (c == '\n' && (quote == '"' || below(2)))
        all += "\\n";
      else if (c == '\t' && quote == '"')
        all += "\\x09";
      else
        all += c;
    }
    return all + quote;
  }
  size_t below(size_t n) { return random_() % n; }

private:
  std::string word(const char *python, const char *json) {
    return below(4) ? python : json;
  }
  std::mt19937 random_;
};

TEST(PythonCalls, ValuesAreRead) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    PythonWriter writer(seed);
    const Json value = writer.value(3);
    const std::string text = writer.written(value);
    std::optional<std::string> json = jsonOfPython(text);
    ASSERT_TRUE(json) << text;
    EXPECT_EQ(Json::parse(*json, nullptr, false), value) << text;
  }
  for (auto [text, meant] :
       std::initializer_list<std::pair<const char *, const char *>>{
           {"'it's \"so\"'", "it's \"so\""},
           {"'C:\\dir\\x'", "C:\\dir\\x"},
           {"'\\x41\\u00e9\\ud83d\\ude00'", "A\xC3\xA9\xF0\x9F\x98\x80"},
           {"\"a\\/b\"", "a/b"}}) {
    std::optional<std::string> json = jsonOfPython(text);
    ASSERT_TRUE(json) << text;
    EXPECT_EQ(Json::parse(*json, nullptr, false), Json(meant)) << text;
  }
  EXPECT_EQ(jsonOfPython("[1, 2,]"), "[1, 2]");
  for (const char *text : {"'a", "[1", "{1: 2}", "f(x)", "[1 2]", "'a' 'b", ""})
    EXPECT_FALSE(jsonOfPython(text)) << text;
  for (const char *text : {"1", "a", "a=", "=1", "a=1 b=2", "a=(1"})
    EXPECT_FALSE(jsonOfKeywords(text)) << text;
}

// The bracket that ends a call is found at the same place, however the text is
// cut.
TEST(PythonCalls, CallsEndAtTheirBracket) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    PythonWriter writer(seed);
    Json arguments = Json::object();
    std::string text;
    for (const char *key : {"a", "b"}) {
      arguments[key] = writer.value(2);
      text += (text.empty() ? "" : ", ") + std::string(key) + "=" +
              writer.written(arguments[key]);
    }
    const std::string all = text + ")]<|x|>";
    EXPECT_EQ(KeywordScanner().find(all), text.size()) << all;
    KeywordScanner scanner;
    size_t found = all.npos;
    for (size_t cut = 0; cut <= all.size() && found == all.npos;
         cut += 1 + writer.below(3))
      found = scanner.find(std::string_view(all).substr(0, cut));
    if (found != all.npos) {
      EXPECT_EQ(found, text.size()) << all;
    }
    EXPECT_EQ(Json::parse(*jsonOfKeywords(text), nullptr, false), arguments)
        << text;
  }
}

const std::vector<std::string> kMarks = {"<|im_start|>", "<|tool_call_start|>",
                                         "<|tool_call_end|>"};

// The template has the form of LFM2's older ones, which write the list of tools
// and no call.
TEST(PythonCalls, TheFormIsKnownByItsToken) {
  const std::string source = conversation(
      "<|im_start|>", "\\n", "<|im_end|>\\n", "{{ m.content }}", "");
  RoundTrip trip(source, kMarks, "<|im_end|>");
  ASSERT_EQ(trip.speech().calls.size(), 1u);
  EXPECT_EQ(trip.speech().calls.front().name, "lfm2");
  EXPECT_TRUE(trip.speech().knowsTools());
  std::mt19937 random(3);
  for (const Turn &turn : turns(false, true, true)) {
    ASSERT_TRUE(trip.speak(turn));
    trip.tokenize(trip.tokenizer(), random);
    expectEqual(turn, trip.hear(trip.tokenizer()), trip.said());
    if (!turn.calls.empty()) {
      EXPECT_EQ(trip.masked(trip.tokenizer(), turn.content.empty()), "")
          << trip.said();
    }
  }
  RoundTrip other(source, {"<|im_start|>"}, "<|im_end|>");
  EXPECT_TRUE(other.speech().calls.empty());
}

/// The grammar of a call of f with this schema, as LFM2 writes it.
class PythonMask {
public:
  explicit PythonMask(const Json &schema)
      : tokenizer_(tokenizerWith(kMarks, "<|im_end|>")),
        forms_{withControls(*toolFormatNamed("lfm2"), tokenizer_)},
        tools_{{"f", "", schema}} {
    ReplyWish wish;
    wish.tools = &tools_;
    wish.forms = &forms_;
    wish.mustCall = true;
    auto made = replyGrammar(wish);
    EXPECT_TRUE(made.isOk()) << made.status().message();
    grammar_ = *made;
  }

  bool accepts(const std::string &arguments) const {
    Matcher matcher(grammar_, std::make_shared<const TokenTrie>(tokenizer_));
    auto tokens = tokenizer_.encode(
        "<|tool_call_start|>[f(" + arguments + ")]<|tool_call_end|>",
        {.addBos = false, .addEos = false, .startsText = false});
    for (int32_t token : *tokens)
      if (!matcher.accept(token))
        return false;
    return matcher.canEnd();
  }
  /// Returns the parser's result for the same text.
  Json read(const std::string &arguments) const {
    ToolCallParser parser(forms_, tools_);
    std::string json;
    for (const ToolEvent &event :
         parser.push(forms_[0].sectionOpen + "f(" + arguments + ")" +
                     forms_[0].sectionClose))
      if (event.kind == ToolEvent::Kind::Arguments)
        json += event.text;
    return Json::parse(json, nullptr, false);
  }

private:
  Tokenizer tokenizer_;
  std::vector<ToolFormat> forms_;
  std::vector<Tool> tools_;
  std::shared_ptr<const Automaton> grammar_;
};

TEST(PythonCalls, MasksHoldValuesToTheirSchema) {
  const PythonMask mask(Json::parse(R"({"type": "object", "required": ["n"],
      "properties": {"n": {"type": "integer", "minimum": 3},
      "s": {"type": "string", "pattern": "^[a-z']+$"},
      "e": {"enum": ["it's", null, true]},
      "l": {"type": "array", "uniqueItems": true},
      "o": {"type": "object", "properties": {"k": {"type": "boolean"}},
            "required": ["k"]}}})"));
  for (const char *text :
       {"n=3", "s='ab', n=4", "n=3,e=None", "n=3, e='it\\'s'",
        "n=3, e=\"it's\"", "n=3, e=True", "n=3, l=['a', \"b\", None]",
        "n=3, o={'k': False}", "n = 3, o={\"k\": true}"}) {
    EXPECT_TRUE(mask.accepts(text)) << text;
    EXPECT_TRUE(mask.read(text).is_object()) << text;
  }
  for (const char *text :
       {"", "n=2", "n='3'", "n=3, n=4", "n=3, s='A'", "n=3, e='other'",
        "n=3, l=['a', \"a\"]", "n=3, l=[True, true]", "n=3, o={'k': 1}",
        "n=3, x=1", "n=3,", "3"})
    EXPECT_FALSE(mask.accepts(text)) << text;
}

// What a mask lets through is read as the value that was written.
TEST(PythonCalls, MaskAndParserAgree) {
  const PythonMask mask(
      Json::parse(R"({"type": "object", "properties": {"a": {}, "b": {}}})"));
  for (uint32_t seed = 0; seed < 400; ++seed) {
    PythonWriter writer(seed);
    const Json arguments = {{"a", writer.value(2)}, {"b", writer.value(2)}};
    std::string text = "a=" + writer.written(arguments["a"]) +
                       ", b=" + writer.written(arguments["b"]);
    // Tuples and \x are read, and not asked for.
    if (text.find("\\x") == text.npos && text.find("((") == text.npos &&
        jsonOfKeywords(text)) {
      EXPECT_EQ(mask.read(text), arguments) << text;
    }
    std::string plain =
        "a=" + arguments["a"].dump() + ", b=" + arguments["b"].dump();
    EXPECT_TRUE(mask.accepts(plain)) << plain;
    EXPECT_EQ(mask.read(plain), arguments) << plain;
  }
}

} // namespace
