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

/// The prompts' tokens and texts. Errors name `param`.
std::variant<std::vector<ChatPrompt>, ApiError>
promptsOf(const Backend &backend, const std::vector<PromptField> &prompts,
          const std::string &param);

/// A prompt between whose ends the model is to write. `extra` are other files,
/// by name and text, where the model has tokens for them. An error if the
/// vocabulary has no tokens for infilling.
std::variant<ChatPrompt, ApiError>
infillPrompt(const Backend &backend, const std::string &prefix,
             const std::string &suffix,
             const std::vector<std::pair<std::string, std::string>> &extra);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_PROMPTS_H
