// How models speak, learned from their templates: what a template writes of a
// conversation is what its model says, and comes back from the parser equal and
// through the mask.
#include "runtime/text/StreamDecoder.h"
#include "test/unit/FamilyTemplates.h"
#include "test/unit/RoundTrip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moert;
using namespace moetest;
using moetest::Json;

namespace {

std::vector<Turn> turnsOf(const FamilyTemplate &family) {
  return turns(family.reasons, family.takesSeveralCalls,
               family.takesTextBesideCall);
}

TEST(Speech, EachFamilyIsHeardAsItSpeaks) {
  std::mt19937 random(5);
  for (const FamilyTemplate &family : familyTemplates()) {
    RoundTrip trip(family.source, family.controls, family.eos);
    EXPECT_EQ(trip.speech().reasons(), family.reasons) << family.name;
    EXPECT_EQ(trip.speech().tellsTools, family.tellsTools) << family.name;
    ASSERT_FALSE(trip.speech().calls.empty()) << family.name;
    std::vector<std::pair<Turn, bool>> all;
    for (const Turn &turn : turnsOf(family))
      all.emplace_back(turn, true);
    // All turns, where only the description tells how they are written.
    if (trip.speech().calls.front().values != ToolFormat::Values::Nested &&
        trip.speech().calls.front().body != ToolFormat::Body::NamedBare)
      for (const Turn &turn : turns(family.reasons, true, true))
        if (!trip.speech().calls.front().isBare ||
            (turn.calls.size() < 2 &&
             (turn.calls.empty() || turn.content.empty())))
          all.emplace_back(turn, false);
    for (const auto &[turn, isWritten] : all) {
      ASSERT_TRUE(isWritten ? trip.render(turn) : trip.speak(turn))
          << family.name;
      const std::string where = family.name + ": " + trip.said();
      trip.tokenize(trip.tokenizer(), random);
      expectEqual(turn, trip.hear(trip.tokenizer()), where);
      if (turn.calls.empty())
        continue;
      EXPECT_EQ(trip.masked(trip.tokenizer(), false), "") << where;
      if (turn.content.empty()) {
        EXPECT_EQ(trip.masked(trip.tokenizer(), true), "") << where;
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Invented templates
//===----------------------------------------------------------------------===//

/// Templates whose marks and structure a seed chooses.
class Inventor {
public:
  explicit Inventor(uint32_t seed) : random_(seed) {}

  FamilyTemplate make() {
    FamilyTemplate made;
    made.name = "invented";
    made.eos = "<|end_of_it|>";
    controls_.clear();
    if (below(8) == 0)
      return headed(std::move(made));
    const std::string user = mark(true), assistant = mark(true);
    std::string body;
    made.reasons = below(4) != 0;
    if (made.reasons) {
      auto [open, close] = pair();
      body = "{%- if m.reasoning_content %}{{ '" + open + blank() +
             "' ~ m.reasoning_content ~ '" + blank() + close + blank() +
             "' }}{%- endif %}";
    }
    body += "{{ m.content or '' }}" + calls();
    made.source =
        "{%- if tools %}{{ 'T' ~ (tools | tojson) }}{%- endif %}{%- for m in "
        "messages %}{%- if m.role == 'assistant' %}{{ '" +
        assistant + "' }}" + body + "{{ '" + made.eos + "' }}{%- else %}{{ '" +
        user + "' ~ m.content ~ '" + made.eos +
        "' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '" +
        assistant + "' }}{%- endif %}";
    made.controls = controls_;
    return made;
  }

private:
  size_t below(size_t n) { return random_() % n; }
  std::string blank() { return std::array{"", "\\n", "\\n\\n", " "}[below(4)]; }
  std::string word() {
    std::string text;
    for (size_t i = 0; i < 4 + below(4); ++i)
      text += char('a' + below(26));
    return text;
  }
  /// A mark of its own, as a control token or as text.
  std::string mark(bool isControl) {
    const std::string name = word();
    std::string text =
        std::array{"<|" + name + "|>", "<" + name + ">", "[" + name + "]",
                   "<" + name + ":it>"}[below(isControl ? 4 : 3)];
    // Brackets with small letters are tags only as control tokens.
    if (isControl || below(2))
      controls_.push_back(text);
    return text;
  }
  std::pair<std::string, std::string> pair() {
    const std::string name = word();
    auto [open, close] = std::array<std::pair<std::string, std::string>, 4>{
        {{"<" + name + ">", "</" + name + ">"},
         {"[" + name + "]", "[/" + name + "]"},
         {"<|START_" + name + "|>", "<|END_" + name + "|>"},
         {"<|" + name + "|>", "<|" + word() + "|>"}}}[below(4)];
    if (below(2))
      controls_.insert(controls_.end(), {open, close});
    return {open, close};
  }

  /// Templates whose headers have a mark of each part: reasoning, answer and
  /// calls are messages of their own, or prompts begin the mark.
  FamilyTemplate headed(FamilyTemplate made) {
    const std::string user = mark(true), assistant = mark(true) + word();
    const std::string call = callOf();
    std::string body, prompt = assistant;
    made.reasons = below(2) != 0;
    if (made.reasons) {
      const std::string end = mark(true), thought = mark(true),
                        answer = mark(true), section = mark(true);
      made.takesTextBesideCall = false;
      body = "{%- if m.reasoning %}{{ '" + assistant + thought +
             "' ~ m.reasoning ~ '" + end +
             "' }}{%- endif %}{%- if m.tool_calls %}" +
             moetest::calls(call, assistant + section, "", "") +
             "{%- else %}{{ '" + assistant + answer + "' ~ m.content ~ '" +
             end + "' }}{%- endif %}";
    } else {
      const std::string begun = std::array{">>>", "@@", "$$ "}[below(3)],
                        answer = word() + "\\n";
      prompt += "\\n" + begun;
      body = "{{ '" + assistant + "\\n' }}{%- if m.content %}{{ '" + begun +
             answer +
             "' ~ m.content }}{%- endif %}{%- for c in m.tool_calls or "
             "[] %}{{ '" +
             begun +
             "' ~ c.function.name ~ '\\n' ~ (c.function.arguments | tojson) "
             "}}{%- endfor %}";
    }
    made.source =
        "{%- if tools %}{{ 'T' ~ (tools | tojson) }}{%- endif %}{%- for "
        "m in messages %}{%- if m.role == 'assistant' %}" +
        body + "{{ '" + made.eos + "' }}{%- else %}{{ '" + user +
        "' ~ m.content ~ '" + made.eos +
        "' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ "
        "'" +
        prompt + "' }}{%- endif %}";
    made.controls = controls_;
    return made;
  }

  /// A call with its name, or its id and name, between control tokens.
  std::string callOf() {
    const std::string open = mark(true), name = mark(true), close = mark(true);
    const std::string id = below(2) ? "c.id ~ '" + mark(true) + "' ~ " : "";
    return "{{ '" + open + "' ~ " + id + "f.name ~ '" + name +
           "' ~ (f.arguments | tojson) ~ '" + close + "' }}";
  }

  std::string calls() {
    auto [open, close] = pair();
    std::string call;
    std::string sectionOpen, sectionClose, between = blank();
    if (below(2)) {
      std::tie(sectionOpen, sectionClose) = pair();
      sectionOpen += blank();
    }
    switch (below(6)) {
    case 5: // A list that follows a word.
      return moetest::calls(jsonCall("", ""), word() + "[", "]", ", ");
    case 3: // An object whose only key is the tool's name.
      call = "{{ '" + open + blank() +
             "{\"' ~ f.name ~ '\": ' ~ (f.arguments | tojson) ~ '}" + blank() +
             close + "' }}";
      break;
    case 4: // Calls in Python's form, in brackets or without.
      sectionOpen = open + blank() + std::array{"", "["}[below(2)];
      sectionClose = (sectionOpen.ends_with('[') ? "]" : "") + blank() + close;
      return moetest::calls(keywordCall(), sectionOpen, sectionClose,
                            std::array{", ", "\\n", ","}[below(3)]);
    case 0: { // JSON objects with other keys.
      const std::string name = word(), arguments = word();
      call = "{{ '" + open + blank() + "{\"" + name +
             "\": \"' ~ f.name ~ '\", \"" + arguments +
             "\": ' ~ (f.arguments | tojson) ~ '}" + blank() + close + "' }}";
      break;
    }
    case 1: {
      const std::string nameClose = mark(true);
      call = "{{ '" + open + "' ~ f.name ~ '" + nameClose +
             "' ~ (f.arguments | tojson) ~ '" + close + "' }}";
      break;
    }
    default: {
      auto [key, keyClose] = pair();
      const std::string valueClose = mark(true) + blank();
      const std::string nameClose = mark(true) + blank();
      call = "{{ '" + open + "' ~ f.name ~ '" + nameClose +
             "' }}{%- for k, v in f.arguments | items %}{{ '" + key +
             "' ~ k ~ '" + keyClose +
             "' ~ (v if v is string else v | tojson) ~ "
             "'" +
             valueClose + "' }}{%- endfor %}{{ '" + close + "' }}";
    }
    }
    return moetest::calls(call, sectionOpen, sectionClose, between);
  }

  std::mt19937 random_;
  std::vector<std::string> controls_;
};

TEST(Speech, InventedTemplatesAreLearned) {
  std::mt19937 random(11);
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const FamilyTemplate family = Inventor(seed).make();
    RoundTrip trip(family.source, family.controls, family.eos);
    const std::string which =
        "seed " + std::to_string(seed) + ": " + family.source;
    EXPECT_EQ(trip.speech().reasons(), family.reasons) << which;
    ASSERT_FALSE(trip.speech().calls.empty()) << which;
    for (const Turn &turn : turnsOf(family)) {
      ASSERT_TRUE(trip.render(turn)) << which;
      // Tokens of several bytes, so that some straddle marks.
      std::vector<std::string> merged;
      for (int i = 0; i < 30; ++i) {
        const size_t at = random() % trip.said().size();
        const std::string part = trip.said().substr(at, 2 + random() % 5);
        const bool isWhole =
            std::ranges::none_of(family.controls, [&](const std::string &name) {
              return trip.said().find(name) != std::string::npos &&
                     (name.find(part) != name.npos ||
                      part.find(name) != part.npos);
            });
        if (isWhole)
          merged.push_back(part);
      }
      const Tokenizer other =
          tokenizerWith(family.controls, family.eos, merged);
      trip.tokenize(other, random);
      const std::string where = which + "\n" + trip.said();
      expectEqual(turn, trip.hear(other), where);
      if (turn.calls.empty())
        continue;
      EXPECT_EQ(trip.masked(other, false), "") << where;
      if (turn.content.empty()) {
        EXPECT_EQ(trip.masked(other, true), "") << where;
      }
      if (testing::Test::HasFailure())
        return;
    }
  }
}

TEST(Speech, WhatATemplateDoesNotShowComesFromTheVocabulary) {
  const std::string source =
      "{%- for m in messages %}{{ m.content }}{%- endfor %}";
  struct {
    std::vector<std::string> controls;
    const char *begin, *end;
  } cases[] = {
      {{"<think>", "</think>"}, "<think>", "</think>"},
      {{"[THINK]", "[/THINK]"}, "[THINK]", "[/THINK]"},
      {{"<|START_THINKING|>", "<|END_THINKING|>"},
       "<|START_THINKING|>",
       "<|END_THINKING|>"},
      {{"<think>"}, "", ""},
      {{"<tool>", "</tool>"}, "", ""},
  };
  for (const auto &each : cases) {
    RoundTrip trip(source, each.controls, "</s>");
    EXPECT_EQ(namedControls(trip.speech().reasoningBegin), each.begin);
    EXPECT_EQ(namedControls(trip.speech().reasoningEnd), each.end);
    EXPECT_FALSE(trip.speech().knowsTools());
  }
}

TEST(Speech, ItIsShownToPeople) {
  const FamilyTemplate family = familyTemplates().front();
  RoundTrip trip(family.source, family.controls, family.eos);
  std::string text;
  for (const auto &[name, value] : trip.speech().rows())
    text += name + ": " + value + "\n";
  EXPECT_EQ(text, "reasoning: <think> ... </think>\n"
                  "tool calls: <tool_call>\\n{\"name\": \"NAME\", "
                  "\"arguments\": {...}}\\n</tool_call> (hermes)\n"
                  "turn ends: <|im_end|>\n");
  // Whole, with line ends once escaped, and without what controls a terminal.
  Speech other;
  other.reasoningEnd = "</" + std::string(100, 'x') + "\u00E9\u0085\x1B[2J\n>";
  EXPECT_EQ(other.rows().front().second,
            " ... </" + std::string(100, 'x') + "\u00E9\\xc2\\x85\\x1b[2J\\n>");
}

} // namespace
