// Says whether texts follow JSON schemas: for every line of the input, a list
// of a schema and of texts, it prints a list of true and false, or the error of
// a schema that cannot be held. With --tokens, texts are cut into random
// tokens, which masks must allow, instead of bytes.
#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/Matcher.h"

#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

using namespace moert;
using Json = nlohmann::ordered_json;

namespace {
/// All bytes, the pieces of the text, and a token that ends texts.
struct Vocabulary {
  std::vector<std::string> tokens;
  std::map<std::string, int32_t> ids;
  std::shared_ptr<const TokenTrie> trie;

  explicit Vocabulary(const std::set<std::string> &pieces) {
    std::set<std::string> all = pieces;
    for (int byte = 0; byte < 256; ++byte)
      all.insert(std::string(1, char(byte)));
    for (const std::string &token : all) {
      ids[token] = int32_t(tokens.size());
      tokens.push_back(token);
    }
    tokens.emplace_back();
    trie = std::make_shared<const TokenTrie>(
        std::vector<std::string_view>(tokens.begin(), tokens.end()),
        std::vector<int32_t>{end()});
  }
  int32_t end() const { return int32_t(tokens.size()) - 1; }
};

std::vector<std::string> piecesOf(const std::string &text, size_t longest,
                                  std::mt19937 &random) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size(); at += pieces.back().size())
    pieces.push_back(text.substr(at, 1 + random() % longest));
  return pieces;
}

bool isAllowed(Matcher &matcher, int32_t token, bool hasMasks) {
  if (hasMasks) {
    auto mask = matcher.allowed();
    const bool isSet = mask && (*mask)[size_t(token) / 64] >> (token % 64) & 1;
    // A mask and accept() must say the same.
    if (isSet != matcher.accept(token).isOk()) {
      std::cerr << "a mask is not what is accepted\n";
      std::exit(1);
    }
    return isSet;
  }
  return matcher.accept(token).isOk();
}

bool follows(const std::shared_ptr<const Automaton> &automaton,
             const std::string &text, bool hasMasks) {
  std::mt19937 random(uint32_t(text.size()));
  const auto pieces = piecesOf(text, hasMasks ? 6 : 1, random);
  const Vocabulary vocabulary({pieces.begin(), pieces.end()});
  Matcher matcher(automaton, vocabulary.trie);
  for (const std::string &piece : pieces)
    if (!isAllowed(matcher, vocabulary.ids.at(piece), hasMasks))
      return false;
  return isAllowed(matcher, vocabulary.end(), hasMasks);
}
} // namespace

int main(int argc, char **argv) {
  const bool hasMasks = argc > 1 && std::strcmp(argv[1], "--tokens") == 0;
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json input = Json::parse(line);
    Json answers = Json::array();
    StatusOr<Grammar> grammar = parseJsonSchema(input[0]);
    StatusOr<Automaton> compiled =
        grammar ? Automaton::compile(*grammar) : grammar.status();
    if (compiled) {
      auto automaton = std::make_shared<const Automaton>(*std::move(compiled));
      for (const Json &text : input[1])
        answers.push_back(
            follows(automaton, text.get<std::string>(), hasMasks));
    } else {
      answers = compiled.status().message();
    }
    std::cout << answers.dump() << std::endl;
  }
  return 0;
}
