#include "runtime/serve/api/Prompts.h"

#include "runtime/serve/api/ApiSettings.h"
#include "runtime/serve/api/Prepare.h"

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
  std::vector<PromptField> prompts;
  if (field.isText()) {
    prompts.push_back({.text = *field.text()});
    return prompts;
  }
  std::vector<Field> items = field.list(size_t(kMostRequestTokens));
  if (items.empty()) {
    field.mustBe("a string, a list of strings, of tokens, or of lists of "
                 "tokens, which is not empty");
    return {};
  }
  if (!items[0].isText() && !items[0].isList()) {
    prompts.push_back(
        {.text = "", .tokens = readTokens(items), .isTokens = true});
    return prompts;
  }
  if (items.size() > kMostPrompts)
    field.fail(fmt::format("must have at most {} prompts", kMostPrompts));
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
promptsOf(const Backend &backend, std::vector<PromptField> prompts,
          const PromptWish &wish) {
  if (prompts.size() * size_t(wish.choices) > kMostPrompts)
    return ApiError{
        .message = fmt::format("{} prompts of {} choices each are too many for "
                               "one request: send at most {} choices",
                               prompts.size(), wish.choices, kMostPrompts),
        .param = wish.param};
  const Tokenizer &tokenizer = backend.tokenizer();
  std::vector<ChatPrompt> result;
  for (PromptField &prompt : prompts) {
    if (prompt.isTokens) {
      result.push_back(
          {tokenizer.decode(prompt.tokens), std::move(prompt.tokens)});
      continue;
    }
    if (wish.most == 0)
      if (auto error = surelyTooLong(backend, prompt.text))
        return *std::move(error);
    auto tokens = tokenizer.encode(
        prompt.text, {.addEos = false,
                      .most = wish.most > 0 ? size_t(wish.most) : SIZE_MAX,
                      .deadline = wish.deadline});
    if (!tokens) {
      ApiError error = errorOf(tokens.status());
      error.param = wish.param;
      return error;
    }
    result.push_back({std::move(prompt.text), *std::move(tokens)});
  }
  return result;
}

} // namespace moert
