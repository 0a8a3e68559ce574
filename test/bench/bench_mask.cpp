//===- bench_mask.cpp - Measures constrained output -----------------------===//
//
// The time of a token mask (Matcher::allowed) and of taking the token, for a
// document that follows a JSON schema and a vocabulary of 262,144 tokens: as
// many as Gemma has. `first` begins with nothing remembered, as a
// request does whose grammar is new; in `again` a second document of the same
// grammar follows, and most masks are known.
//
// A token is one iteration; `most_us` is the longest one. In `tools`, calls of
// an agent's 100 tools (150 KB of schemas) are made one after the other, so
// that each has its own names and strings; `compileTools` measures what their
// grammar takes until it can be used.
//
//===----------------------------------------------------------------------===//

#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/Matcher.h"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <malloc.h>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>

using namespace moert;

namespace {
constexpr size_t kVocabulary = 262'144;

constexpr const char *kSchema = R"({
  "type": "object",
  "properties": {
    "title": {"type": "string", "maxLength": 200},
    "state": {"enum": ["open", "closed", "in progress"]},
    "count": {"type": "integer", "minimum": 0},
    "price": {"type": "number"},
    "people": {"type": "array", "minItems": 1, "items": {
      "type": "object",
      "properties": {
        "name": {"type": "string"},
        "mail": {"type": "string", "pattern": "^[a-z.]+@[a-z.]+$"},
        "age": {"type": ["integer", "null"]}},
      "required": ["name", "mail"], "additionalProperties": false}},
    "notes": {"type": "array", "items": {"type": "string"}}},
  "required": ["title", "state", "count", "people"],
  "additionalProperties": false})";

std::string document(int variant) {
  std::string people;
  for (int i = 0; i < 12; ++i)
    people += (i > 0 ? ", " : "") + std::string(R"({"name": "Person )") +
              std::to_string(i * variant) + R"( of the House", "mail": "p)" +
              std::string(size_t(1 + i), 'a') + R"(@example.org", "age": )" +
              (i % 3 == 0 ? "null" : std::to_string(20 + i)) + "}";
  return R"({"title": "A longer title, with \"quotes\" and some words in it", )"
         R"("state": "in progress", "count": )" +
         std::to_string(1234 * variant) + R"(, "price": 12.5e3, "people": [)" +
         people +
         R"(], "notes": ["first the one thing", "then the other one"]})";
}

/// Byte tokens, what JSON is made of, and words of random syllables, which
/// share prefixes as real ones do.
std::vector<std::string> vocabulary() {
  std::set<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.insert(std::string(1, char(byte)));
  for (const char *text :
       {"{\"",  "\": \"", "\", \"",  "\": ",  "\"}",   "},",        " {\"",
        "[\"",  "\"]",    "}]",      "], ",   " null", " true",     "name",
        "mail", "age",    "title",   "state", "in",    " progress", "people",
        " the", " of",    "example", ".org",  "10",    "100",       "12",
        "20",   "  ",     "    ",    "\n",    "\n  ",  "\n    "})
    tokens.insert(text);
  std::mt19937 random(1);
  constexpr const char *starts[] = {"b",  "br", "c",  "d", "f", "g", "h",
                                    "k",  "l",  "m",  "n", "p", "r", "s",
                                    "st", "t",  "tr", "v", "w", "z", ""};
  constexpr const char *ends[] = {"a",  "e",  "i",  "o",  "u",   "an", "en",
                                  "er", "is", "on", "ou", "ing", "al"};
  while (tokens.size() < kVocabulary) {
    std::string word = random() % 2 ? " " : "";
    for (uint32_t parts = 1 + random() % 4; parts > 0; --parts) {
      word += starts[random() % std::size(starts)];
      word += ends[random() % std::size(ends)];
    }
    if (random() % 8 == 0)
      word[word[0] == ' '] = char(std::toupper(word[word[0] == ' ']));
    tokens.insert(word);
  }
  std::vector<std::string> list(tokens.begin(), tokens.end());
  std::shuffle(list.begin(), list.end(), random);
  return list;
}

/// Divides a text into the longest tokens.
std::vector<int32_t> tokensOf(const std::vector<std::string> &list,
                              std::string_view text) {
  std::map<std::string_view, int32_t> ids;
  for (size_t i = 0; i < list.size(); ++i)
    ids.emplace(list[i], int32_t(i));
  std::vector<int32_t> result;
  while (!text.empty())
    for (size_t length = std::min<size_t>(text.size(), 24); length > 0;
         --length)
      if (auto it = ids.find(text.substr(0, length)); it != ids.end()) {
        result.push_back(it->second);
        text.remove_prefix(length);
        break;
      }
  return result;
}

struct Problem {
  std::vector<std::string> list = vocabulary();
  std::shared_ptr<const TokenTrie> trie;
  std::shared_ptr<const Automaton> automaton;
  std::vector<int32_t> first, second;

  Problem() {
    std::vector<std::string_view> views(list.begin(), list.end());
    trie = std::make_shared<const TokenTrie>(views, std::vector<int32_t>{});
    auto grammar = parseJsonSchema(nlohmann::ordered_json::parse(kSchema));
    auto compiled = Automaton::compile(*grammar);
    automaton = std::make_shared<const Automaton>(*std::move(compiled));
    first = tokensOf(list, document(1));
    second = tokensOf(list, document(7));
  }
};

/// Follows a text and adds the seconds that it takes. Returns the longest time
/// of a token in seconds, or a negative number if the grammar refuses the text.
double follow(Matcher &matcher, const std::vector<int32_t> &text,
              double &seconds) {
  double most = 0;
  for (int32_t token : text) {
    auto start = std::chrono::steady_clock::now();
    StatusOr<std::span<const uint64_t>> mask = matcher.allowed();
    if (!mask || !((*mask)[size_t(token) / 64] >> (token % 64) & 1) ||
        !matcher.accept(token).isOk())
      return -1;
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - start;
    most = std::max(most, time.count());
    seconds += time.count();
  }
  return most;
}

/// Schemas as agents' tools have them: some limits, nested objects and lists.
nlohmann::ordered_json parameterOf(std::mt19937 &random, int depth) {
  using Json = nlohmann::ordered_json;
  const std::string words = "what it is for, and when it is to be given, "
                            "in some words that models read";
  switch (random() % (depth < 2 ? 10 : 7)) {
  case 0:
    return {{"type", "integer"}, {"minimum", 0}, {"maximum", 1000}};
  case 1:
    return {{"type", "boolean"}, {"default", false}, {"description", words}};
  case 2:
    return {{"type", "string"},
            {"enum", {"one", "two", "n" + std::to_string(random() % 99)}}};
  case 3:
    return {{"type", {"string", "null"}}, {"pattern", "^[a-z_./]+$"}};
  case 4:
  case 5:
  case 6:
    return {{"type", "string"},
            {"description", words + words},
            {"maxLength", random() % 2 ? 10'000 : 255}};
  case 7:
  case 8:
    return {{"type", "array"},
            {"items", parameterOf(random, depth + 1)},
            {"maxItems", 1000}};
  default:
    Json object = {{"type", "object"}, {"properties", Json::object()}};
    for (int i = 0; i < 4; ++i)
      object["properties"]["field" + std::to_string(i)] =
          parameterOf(random, depth + 1);
    object["required"] = {"field0"};
    return object;
  }
}

std::vector<nlohmann::ordered_json> agentTools() {
  std::mt19937 random(4);
  std::vector<nlohmann::ordered_json> tools;
  for (int i = 0; i < 100; ++i) {
    tools.push_back(
        {{"type", "object"}, {"properties", nlohmann::ordered_json::object()}});
    for (int k = 0; k < 8; ++k)
      tools.back()["properties"]["parameter" + std::to_string(k)] =
          parameterOf(random, 0);
    tools.back()["required"] = {"parameter0"};
  }
  return tools;
}

std::string toolName(size_t i) { return "tool_" + std::to_string(i); }

std::shared_ptr<const Automaton>
toolsAutomaton(const std::vector<nlohmann::ordered_json> &tools) {
  Grammar grammar;
  const RuleId root = grammar.declare("root");
  std::vector<ExprId> calls;
  for (size_t i = 0; i < tools.size(); ++i) {
    auto schema = parseJsonSchema(tools[i]);
    calls.push_back(grammar.sequence(
        {grammar.bytes("{\"name\": \"" + toolName(i) + "\", \"arguments\": "),
         grammar.embed(*schema, toolName(i)), grammar.bytes("}")}));
  }
  grammar.define(root, grammar.repeat(grammar.choice(std::move(calls)), 1,
                                      Expr::kUnbounded));
  auto compiled = Automaton::compile(grammar);
  return std::make_shared<const Automaton>(*std::move(compiled));
}

void compileTools(benchmark::State &state) {
  const auto tools = agentTools();
  size_t size = 0;
  for (const auto &tool : tools)
    size += tool.dump().size();
  double kept = 0;
  for (auto iteration : state) {
    (void)iteration;
    const auto before = mallinfo2();
    auto automaton = toolsAutomaton(tools);
    const auto after = mallinfo2();
    kept = double(after.uordblks + after.hblkhd) -
           double(before.uordblks + before.hblkhd);
    state.counters["states"] = double(automaton->stateCount());
  }
  state.counters["schema_KB"] = double(size) / 1000;
  state.counters["kept_MB"] = kept / 1e6;
}

/// A value that a parameter may have.
std::string valueFor(const nlohmann::ordered_json &schema) {
  if (schema.contains("enum"))
    return schema["enum"][1].dump();
  const auto &type = schema["type"];
  if (type == "integer")
    return "42";
  if (type == "boolean")
    return "true";
  if (type == "array")
    return "[" + valueFor(schema["items"]) + ", " + valueFor(schema["items"]) +
           "]";
  if (type == "object") {
    std::string text;
    for (const auto &[name, inner] : schema["properties"].items())
      text += (text.empty() ? "{" : ", ") + ("\"" + name + "\": ") +
              valueFor(inner);
    return text + "}";
  }
  return schema.contains("pattern") ? "\"some.name/of_it\""
                                    : "\"a text of some words, as they come\"";
}

void maskOfTools(benchmark::State &state, bool again) {
  static const Problem problem;
  static const auto tools = agentTools();
  static const auto automaton = toolsAutomaton(tools);
  static const auto texts = [] {
    std::vector<std::vector<int32_t>> all;
    for (size_t i = 0; i < tools.size(); i += 5)
      all.push_back(tokensOf(
          problem.list, "{\"name\": \"" + toolName(i) +
                            "\", \"arguments\": " + valueFor(tools[i]) + "}"));
    return all;
  }();
  double most = 0, seconds = 0;
  size_t tokens = 0;
  for (auto iteration : state) {
    (void)iteration;
    Matcher matcher(automaton, problem.trie);
    for (int round = 0; round <= int(again); ++round) {
      seconds = 0;
      tokens = 0;
      most = 0;
      for (const auto &text : texts) {
        matcher.restart();
        const double longest = follow(matcher, text, seconds);
        if (longest < 0)
          return state.SkipWithError("the grammar refuses a call");
        most = std::max(most, longest);
        tokens += text.size();
      }
    }
  }
  state.counters["tokens"] = double(tokens);
  state.counters["us_per_token"] = seconds * 1e6 / double(tokens);
  state.counters["most_us"] = most * 1e6;
}

void maskOf(benchmark::State &state, bool again) {
  static const Problem problem;
  const std::vector<int32_t> &text = again ? problem.second : problem.first;
  double most = 0, seconds = 0;
  for (auto iteration : state) {
    (void)iteration;
    state.PauseTiming();
    Matcher matcher(problem.automaton, problem.trie);
    if (again) {
      (void)follow(matcher, problem.first, seconds);
      matcher.restart();
    }
    seconds = 0;
    state.ResumeTiming();
    double longest = follow(matcher, text, seconds);
    if (longest < 0)
      return state.SkipWithError("the grammar refuses the document");
    most = std::max(most, longest);
  }
  state.counters["tokens"] = double(text.size());
  state.counters["us_per_token"] = seconds * 1e6 / double(text.size());
  state.counters["most_us"] = most * 1e6;
}
} // namespace

BENCHMARK_CAPTURE(maskOf, first, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(maskOf, again, true)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);
BENCHMARK_CAPTURE(maskOfTools, tools_first, false)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(maskOfTools, tools_again, true)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK(compileTools)->Unit(benchmark::kMillisecond);
BENCHMARK_MAIN();
