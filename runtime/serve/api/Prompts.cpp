#include "runtime/serve/api/Prompts.h"

#include "runtime/serve/api/ApiSettings.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>

namespace moert {

namespace {
std::vector<int32_t> readTokens(const std::vector<Field> &items) {
  std::vector<int32_t> tokens;
  for (const Field &item : items)
    tokens.push_back(int32_t(item.integer(0, INT32_MAX).value_or(0)));
  return tokens;
}

/// Names that families give to the tokens of infilling.
struct InfillNames {
  std::string_view prefix, suffix, middle, fileName;
};
constexpr std::array kInfillNames = {
    // Qwen, Granite
    InfillNames{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
                "<|file_sep|>"},
    // StarCoder
    InfillNames{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"},
    // DeepSeek-Coder
    InfillNames{"<\uFF5Cfim\u2581begin\uFF5C>", "<\uFF5Cfim\u2581hole\uFF5C>",
                "<\uFF5Cfim\u2581end\uFF5C>", ""},
    // GLM
    InfillNames{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", ""},
    // Code Llama
    InfillNames{"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", ""},
};

/// The token whose name is all of `name`.
std::optional<int32_t> tokenNamed(const Tokenizer &tokenizer,
                                  std::string_view name) {
  if (name.empty())
    return std::nullopt;
  auto tokens = tokenizer.encode(name, {.addBos = false, .addEos = false});
  if (!tokens || tokens->size() != 1 ||
      tokenizer.tokenBytes(tokens->front()) != name)
    return std::nullopt;
  return tokens->front();
}
} // namespace

std::vector<PromptField> readPrompts(const Field &field) {
  if (field.isText())
    return {{.text = *field.text()}};
  std::vector<Field> items = field.list(size_t(kMostRequestTokens));
  if (items.empty()) {
    field.mustBe("a string, a list of strings, of tokens, or of lists of "
                 "tokens, which is not empty");
    return {};
  }
  if (!items[0].isText() && !items[0].isList())
    return {{.text = "", .tokens = readTokens(items), .isTokens = true}};
  if (items.size() > kMostPrompts)
    field.fail(fmt::format("must have at most {} prompts", kMostPrompts));
  std::vector<PromptField> prompts;
  for (const Field &item : items)
    if (items[0].isText())
      prompts.push_back({.text = item.text().value_or("")});
    else
      prompts.push_back(
          {.text = "",
           .tokens = readTokens(item.list(size_t(kMostRequestTokens))),
           .isTokens = true});
  return prompts;
}

std::variant<std::vector<ChatPrompt>, ApiError>
promptsOf(const Backend &backend, const std::vector<PromptField> &prompts,
          const std::string &param) {
  const Tokenizer &tokenizer = backend.tokenizer();
  std::vector<ChatPrompt> result;
  for (const PromptField &prompt : prompts) {
    ChatPrompt one;
    if (prompt.isTokens) {
      one = {tokenizer.decode(prompt.tokens), prompt.tokens};
    } else {
      auto tokens = tokenizer.encode(prompt.text, {.addEos = false});
      if (!tokens) {
        ApiError error = errorOf(tokens.status());
        error.param = param;
        return error;
      }
      one = {prompt.text, *std::move(tokens)};
    }
    result.push_back(std::move(one));
  }
  return result;
}

std::variant<ChatPrompt, ApiError>
infillPrompt(const Backend &backend, const std::string &prefix,
             const std::string &suffix,
             const std::vector<std::pair<std::string, std::string>> &extra) {
  const Tokenizer &tokenizer = backend.tokenizer();
  for (const InfillNames &names : kInfillNames) {
    auto before = tokenNamed(tokenizer, names.prefix);
    auto after = tokenNamed(tokenizer, names.suffix);
    auto middle = tokenNamed(tokenizer, names.middle);
    if (!before || !after || !middle)
      continue;
    auto file = tokenNamed(tokenizer, names.fileName);
    ChatPrompt prompt;
    // The files' texts are no tokens of control, whatever they say.
    auto add = [&](std::string_view text) {
      auto tokens = tokenizer.encode(text, {.addBos = false,
                                            .addEos = false,
                                            .parseSpecial = false,
                                            .startsText = false});
      if (tokens)
        prompt.tokens.insert(prompt.tokens.end(), tokens->begin(),
                             tokens->end());
      return tokens.status();
    };
    if (auto empty = tokenizer.encode("", {.addEos = false}))
      prompt.tokens = *std::move(empty);
    Status status;
    for (const auto &[name, text] : extra) {
      if (!file || !status)
        break;
      prompt.tokens.push_back(*file);
      status = add(name + "\n" + text);
    }
    prompt.tokens.push_back(*before);
    if (status)
      status = add(prefix);
    prompt.tokens.push_back(*after);
    if (status)
      status = add(suffix);
    prompt.tokens.push_back(*middle);
    if (!status)
      return errorOf(status);
    prompt.text = prefix + suffix;
    return prompt;
  }
  return ApiError{.status = 501,
                  .message = fmt::format(
                      "the vocabulary of {} has no tokens for infilling, such "
                      "as <|fim_prefix|>: use a model that was trained for it",
                      backend.facts().id),
                  .code = "infill_not_supported"};
}

} // namespace moert
