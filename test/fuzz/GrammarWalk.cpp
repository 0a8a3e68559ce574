#include "test/fuzz/GrammarWalk.h"

#include "runtime/constrain/Automaton.h"
#include "runtime/constrain/Matcher.h"
#include "runtime/constrain/TokenTrie.h"
#include "test/fuzz/Fuzz.h"

#include <ctime>
#include <random>

using namespace moert;

namespace moefuzz {

namespace {
constexpr int kMostTokens = 96;
/// Small enough that every input is fast.
constexpr size_t kMostStates = 20'000;

/// Every byte, longer tokens, and one that ends texts. There are so many that a
/// mask without a limit on its work takes long.
struct Vocabulary {
  std::vector<std::string> texts;
  std::shared_ptr<const TokenTrie> trie;

  Vocabulary() {
    for (int byte = 0; byte < 256; ++byte)
      texts.push_back(std::string(1, char(byte)));
    for (const char *text : {"\":", "\", \"", "{\"", "}", "true", "null", "  ",
                             "\xc3\xa9", "\\u00", "0.", "-1"})
      texts.emplace_back(text);
    addWords();
    texts.emplace_back("");
    trie = std::make_shared<const TokenTrie>(
        std::vector<std::string_view>(texts.begin(), texts.end()),
        std::vector<int32_t>{end()});
  }
  int32_t end() const { return int32_t(texts.size()) - 1; }

private:
  /// Every two letters, and a long word that begins with each.
  void addWords() {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz ";
    constexpr size_t kLong = 16;
    const std::string twice = std::string(kLetters).append(kLetters);
    for (size_t i = 0; i < kLetters.size(); ++i) {
      for (char second : kLetters)
        texts.push_back({kLetters[i], second});
      texts.push_back(twice.substr(i, kLong));
    }
  }
};

/// Makes a mask as a scheduler does: in pieces, of which none takes long.
/// Returns false if it takes too many.
bool isPrepared(Matcher &matcher) {
  constexpr int kMostPieces = 100;
  constexpr uint64_t kSteps = 20'000;
  // Limit in processor time, because machines may be busy with other things.
  constexpr std::clock_t kMostTime = 2 * CLOCKS_PER_SEC;
  for (int i = 0; i < kMostPieces; ++i) {
    const std::clock_t begun = std::clock();
    auto isReady = matcher.prepare(kSteps);
    require(std::clock() - begun < kMostTime,
            "a piece of the work on a mask is short");
    if (!isReady || *isReady)
      return isReady.isOk();
  }
  return false;
}

bool has(std::span<const uint64_t> mask, int32_t token) {
  return (mask[size_t(token) / 64] >> (token % 64) & 1) != 0;
}
} // namespace

std::string walk(const Grammar &grammar, uint32_t seed) {
  static const Vocabulary vocabulary;
  StatusOr<Automaton> automaton = Automaton::compile(grammar, kMostStates);
  if (!automaton)
    return "";
  Matcher matcher(std::make_shared<const Automaton>(*std::move(automaton)),
                  vocabulary.trie);
  std::mt19937 random(seed);
  std::string text;
  const auto count = int32_t(vocabulary.texts.size());
  for (int i = 0; i < kMostTokens && !matcher.hasEnded(); ++i) {
    if (!isPrepared(matcher))
      return "";
    auto mask = matcher.allowed();
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < count; ++token)
      if (has(*mask, token))
        allowed.push_back(token);
    require(has(*mask, vocabulary.end()) == matcher.canEnd(),
            "a text may end where it is complete", text);
    if (allowed.empty())
      return "";
    const auto other = int32_t(random() % uint32_t(count));
    const bool isAllowed = has(*mask, other);
    if (!isAllowed)
      require(!matcher.accept(other).isOk(),
              "a token that is masked is refused", text);
    // Texts end as soon as they can in every fourth step.
    int32_t token = allowed[random() % allowed.size()];
    if (matcher.canEnd() && random() % 4 == 0)
      token = vocabulary.end();
    require(matcher.accept(token).isOk(), "a token of the mask is accepted",
            text);
    text += vocabulary.texts[size_t(token)];
  }
  return matcher.hasEnded() ? text : "";
}

} // namespace moefuzz
