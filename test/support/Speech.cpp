// moe-speech TEMPLATE.jinja ...: how the model of each chat template speaks,
// and whether turns with reasoning and calls come back from mask and parser.
// The vocabulary is all bytes, and what looks like control tokens in the
// template.
#include "runtime/chat/MarkText.h"
#include "test/unit/RoundTrip.h"

#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

using namespace moert;
using namespace moetest;

namespace {
std::vector<std::string> controlsOf(const std::string &source) {
  constexpr const char *patterns[] = {
      R"(<\|[^|<>'"\s]{1,40}\|>)", "<\uFF5C[^<>'\"\\s]{1,60}>",
      R"(\[/?[A-Z_]{3,24}\])",     R"(\]<\]minimax\[>\[)",
      R"(<\|[a-z_"]+>)",           R"(<[a-z_"]+\|>)"};
  std::set<std::string> found;
  for (const char *pattern : patterns) {
    const std::regex expression(pattern);
    for (std::sregex_iterator it(source.begin(), source.end(), expression), end;
         it != end; ++it)
      found.insert(it->str());
  }
  if (found.contains("<|message|>"))
    found.insert({"<|start|>", "<|end|>", "<|constrain|>"});
  return {found.begin(), found.end()};
}

/// Returns the text that a template writes for a question and a message of the
/// assistant.
std::string written(const std::string &source, const Json &message) {
  const Json messages = {{{"role", "user"}, {"content", "zq"}}, message};
  Json variables = {{"messages", messages}};
  const ChatTemplate parsed = *ChatTemplate::parse(source);
  auto render = [&] {
    return parsed.render({.json = variables.dump(),
                          .strings = {{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"functions", "[]"},
                                      {"datetime", "2026-01-01"}}});
  };
  if (auto text = render())
    return *text;
  variables["tools"] = Json::array();
  auto text = render();
  return text ? *text : std::string();
}

/// Returns the text that a template writes behind an answer: the token that
/// ends a turn.
std::string endOf(const std::string &source) {
  const std::string text =
      written(source, {{"role", "assistant"}, {"content", "zqanswer"}});
  const size_t at = text.rfind("zqanswer");
  if (at == std::string::npos)
    return "</s>";
  const std::string_view rest =
      withoutBlanks(std::string_view(text).substr(at + 8));
  const std::vector<std::string_view> atoms = atomsOf(rest);
  std::string end = rest.starts_with("[e~[") ? "[e~[" : "</s>";
  for (std::string_view atom : atoms)
    if (atom.size() > 2 && atom.find("close") == atom.npos &&
        atom.find("END_TEXT") == atom.npos &&
        atom.find("END_RESPONSE") == atom.npos) {
      end = atom;
      break;
    }
  // The text behind reasoning, or in front of a call, does not end a turn.
  const std::string thought =
      written(source, {{"role", "assistant"},
                       {"content", "zqanswer"},
                       {"reasoning", "zqthought"},
                       {"reasoning_content", "zqthought"}});
  const std::string called = written(
      source,
      {{"role", "assistant"},
       {"content", ""},
       {"tool_calls", Json::array({{{"id", "zqidaaa01"},
                                    {"type", "function"},
                                    {"function",
                                     {{"name", "zqcall"},
                                      {"arguments", Json::object()}}}}})}});
  const size_t head = text.find("zqanswer") - text.rfind("zq", at - 1);
  auto isBetween = [&](const std::string &all, size_t from, const char *until) {
    const size_t place = all.find(end, from);
    return from != all.npos && place < all.find(until, from) &&
           all.find(until, from) != all.npos;
  };
  const size_t question = called.find("zq");
  return isBetween(thought, thought.find("zqthought"), "zqanswer") ||
                 isBetween(called, question + head, "zqcall")
             ? "</s>"
             : end;
}

/// Returns what is wrong with a turn that came back; "" if nothing is.
std::string difference(const Turn &wanted, const Heard &heard) {
  if (!heard.error.empty())
    return heard.error;
  if (withoutBlanks(heard.turn.content) != withoutBlanks(wanted.content))
    return "content: " + heard.turn.content;
  if (withoutBlanks(heard.turn.reasoning) != withoutBlanks(wanted.reasoning))
    return "reasoning: " + heard.turn.reasoning;
  if (heard.turn.calls.size() != wanted.calls.size())
    return "calls: " + std::to_string(heard.turn.calls.size());
  for (size_t i = 0; i < wanted.calls.size(); ++i)
    if (heard.turn.calls[i].name != wanted.calls[i].name ||
        nlohmann::json(heard.turn.calls[i].arguments) !=
            nlohmann::json(wanted.calls[i].arguments))
      return "call of " + heard.turn.calls[i].name + ": " +
             heard.turn.calls[i].arguments.dump();
  return {};
}

void show(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string source = text.str();
  std::printf("%s\n", path.c_str());
  if (auto parsed = ChatTemplate::parse(source); !parsed) {
    std::printf("  %s\n", parsed.status().message().c_str());
    return;
  }
  RoundTrip trip(source, controlsOf(source), endOf(source));
  for (const auto &[name, value] : trip.speech().rows())
    std::printf("  %-10s %.200s\n", name.c_str(), value.c_str());
  std::mt19937 random(1);
  int written = 0, spoken = 0;
  for (Turn turn : turns(trip.speech().reasons(), true, true)) {
    if (trip.speech().calls.empty() && !turn.calls.empty())
      continue;
    // Without marks around it, a call must be the whole reply.
    if (!turn.calls.empty() && trip.speech().calls.front().isBare &&
        (turn.calls.size() > 1 || !turn.content.empty()))
      continue;
    // Some templates leave out a part of earlier turns: then the description
    // is all that tells what the model says.
    bool isWritten = trip.render(turn);
    if (!isWritten) {
      Turn less = turn;
      less.reasoning.clear();
      isWritten = trip.render(less);
      if (isWritten)
        turn = less;
    }
    if (!isWritten && !trip.speak(turn)) {
      std::printf("  REFUSED: %s\n", trip.refusal().c_str());
      continue;
    }
    trip.tokenize(trip.tokenizer(), random);
    Heard heard = trip.hear(trip.tokenizer());
    // Some models write the text beside a call as reasoning.
    if (isWritten && !turn.calls.empty() && heard.turn.content.empty() &&
        !turn.content.empty() &&
        heard.turn.reasoning.find(turn.content) != std::string::npos &&
        trip.speak(turn)) {
      isWritten = false;
      trip.tokenize(trip.tokenizer(), random);
      heard = trip.hear(trip.tokenizer());
    }
    std::string fault = difference(turn, heard);
    if (fault.empty() && !turn.calls.empty())
      fault = trip.masked(trip.tokenizer(), turn.content.empty());
    if (fault.empty())
      ++(isWritten ? written : spoken);
    else
      std::printf("  WRONG: %s\n    said%s: %s\n", fault.c_str(),
                  isWritten ? "" : " by the description", trip.said().c_str());
  }
  std::printf("  came back: %d turns as the template writes them, %d by the "
              "description\n",
              written, spoken);
}
} // namespace

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    show(argv[i]);
  return 0;
}
