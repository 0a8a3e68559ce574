//===- Prompts.h - Prompts that are no conversations ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_PROMPTS_H
#define MOE_RUNTIME_SERVE_API_PROMPTS_H

#include "runtime/serve/api/ApiError.h"
#include "runtime/serve/api/Backend.h"
#include "runtime/serve/api/Fields.h"

#include <string>
#include <variant>
#include <vector>

namespace moert {

/// A prompt as a request has it: a text, or tokens.
struct PromptField {
  std::string text;
  std::vector<int32_t> tokens = {};
  bool isTokens = false;
};

/// A text, a list of texts, a list of tokens, or a list of such lists.
std::vector<PromptField> readPrompts(const Field &field);

/// The requirements for prompts.
struct PromptWish {
  std::string param; ///< Field that has the prompts, for errors.
  int32_t choices = 1;
  /// Tokens of a prompt that count: it may be cut behind them. 0: all count.
  int32_t most = 0;
  Deadline deadline = {};
};

/// The prompts' tokens and texts. Fails before it reads any if they have more
/// than kMostPrompts choices together, and before it reads one that is far too
/// long for the context.
std::variant<std::vector<ChatPrompt>, ApiError>
promptsOf(const Backend &backend, std::vector<PromptField> prompts,
          const PromptWish &wish);

/// A place in a file between whose ends the model is to write.
struct InfillRequest {
  std::string prefix, suffix;
  /// Other files, by name and text, where the model has tokens for them.
  std::vector<std::pair<std::string, std::string>> extra = {};
  int32_t maxTokens = -1; ///< The most tokens of the answer; -1: no limit.
  Deadline deadline = {};
};

/// The prompt of an infill. Names of the tokens of infilling are text in it.
/// What the context has no room for is left out: the first ones of the other
/// files, then the beginning of the prefix and the end of the suffix. An error
/// if the vocabulary has no tokens for infilling.
std::variant<ChatPrompt, ApiError> infillPrompt(const Backend &backend,
                                                const InfillRequest &request);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_PROMPTS_H
