#include "runtime/serve/api/Prompts.h"

#include "runtime/serve/api/ApiSettings.h"

#include <fmt/format.h>

namespace moert {

namespace {
std::vector<int32_t> readTokens(const std::vector<Field> &items) {
  std::vector<int32_t> tokens;
  for (const Field &item : items)
    tokens.push_back(int32_t(item.integer(0, INT32_MAX).value_or(0)));
  return tokens;
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
          const std::string &param, int32_t choices) {
  if (prompts.size() * size_t(choices) > kMostPrompts)
    return ApiError{
        .message = fmt::format("{} prompts of {} choices each are too many for "
                               "one request: send at most {} choices",
                               prompts.size(), choices, kMostPrompts),
        .param = param};
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

} // namespace moert
