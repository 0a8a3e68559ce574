#include "compiler/Import/PreTokenizerFit.h"

#include "compiler/Import/TokenizerMetadata.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/BpeModel.h"
#include "runtime/text/PreTokenizer.h"

#include <algorithm>

using namespace moert;

namespace moec {

namespace {
/// With wrong rules, one token in 400 or more is cut, in the vocabularies that
/// were tried (SmolLM2, DeepSeek). So 4000 tokens reveal wrong rules, and 2000
/// do with a probability of 99 %.
constexpr size_t kMostTokens = 4000, kFewestTokens = 2000;

/// Returns tokens of several characters, evenly from the whole vocabulary,
/// because tokens with low ids are the most common and simplest ones.
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

/// Returns the number of words in `text`, or 0 if it cannot be split.
size_t countWords(const PreTokenizer &rules, std::string_view text,
                  PreTokenizer::Scratch &scratch) {
  size_t words = 0;
  auto countWord = [&](uint32_t) {
    ++words;
    return Status::ok();
  };
  return rules.split(text, scratch, countWord) ? words : 0;
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
  // A token with two digits may not exist, because some rules cut off every
  // digit, so the text contains some.
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
