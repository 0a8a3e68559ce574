#include "compiler/Import/PreTokenizerFit.h"

#include "compiler/Import/TokenizerMetadata.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/BpeModel.h"
#include "runtime/text/PreTokenizer.h"

#include <algorithm>

using namespace moert;

namespace moec {

namespace {
/// Rules that are wrong cut one token in 400 or more of the vocabularies tried
/// (SmolLM2, DeepSeek): 4000 tokens show it, and 2000 do with 99 %.
constexpr size_t kMostTokens = 4000, kFewestTokens = 2000;

/// Tokens of several characters, evenly from the whole vocabulary: those of low
/// ids alone are the commonest and simplest.
std::vector<std::string> sampleTokens(const TokenizerSpec &spec,
                                      const BpeModel &model) {
  std::vector<std::string> tokens;
  for (int32_t id = 0; id < model.vocabularySize(); ++id) {
    bool isText = spec.types.empty() ||
                  static_cast<TokenType>(spec.types[id]) == TokenType::Normal;
    std::string_view text = model.bytes(id);
    if (isText && !text.empty() && validUtf8Prefix(text) == text.size() &&
        nextUtf8(text.substr(0, 4)).length < text.size())
      tokens.emplace_back(text);
  }
  size_t step = std::max<size_t>(1, tokens.size() / kMostTokens);
  std::vector<std::string> sample;
  for (size_t i = 0; i < tokens.size(); i += step)
    sample.push_back(std::move(tokens[i]));
  return sample;
}

/// The words of `text`; 0 where it cannot be cut.
size_t countWords(const PreTokenizer &rules, std::string_view text,
                  PreTokenizer::Scratch &scratch) {
  std::vector<uint32_t> ends;
  return rules.split(text, scratch, ends) ? ends.size() : 0;
}
} // namespace

std::optional<std::string_view> fittingPreTokenizer(const GgufModel &file) {
  StatusOr<TokenizerSpec> spec = tokenizerSpecFromGguf(file, "default");
  if (!spec || spec->model != "gpt2")
    return std::nullopt;
  StatusOr<BpeModel> model = BpeModel::create(*spec);
  if (!model)
    return std::nullopt;
  std::vector<std::string> tokens = sampleTokens(*spec, *model);
  if (tokens.size() < kFewestTokens)
    return std::nullopt;
  // No token of rules that cut off every digit has two of them.
  std::string text = "2026";
  for (const std::string &token : tokens)
    text += token;

  std::optional<std::string_view> best;
  size_t mostWords = 0;
  PreTokenizer::Scratch scratch;
  for (std::string_view name : PreTokenizer::supportedNames()) {
    StatusOr<PreTokenizer> rules = PreTokenizer::create(name);
    if (!rules || rules->alphabet() != Alphabet::Bytes)
      continue;
    bool cutsNone = std::ranges::all_of(tokens, [&](const std::string &token) {
      return countWords(*rules, token, scratch) == 1;
    });
    if (!cutsNone)
      continue;
    size_t words = countWords(*rules, text, scratch);
    if (words > mostWords) {
      mostWords = words;
      best = name;
    }
  }
  return best;
}

} // namespace moec
