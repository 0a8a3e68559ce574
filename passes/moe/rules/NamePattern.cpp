#include "passes/moe/rules/NamePattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

using namespace mlir::moe;

/// Names are short, so more steps mean that a pattern backtracks exponentially.
static constexpr uint32_t kMostSteps = 100000;
static constexpr size_t kLongestPattern = 4096;

std::optional<NamePattern>
NamePattern::create(llvm::StringRef text, Dialect dialect, std::string &error) {
  if (text.size() > kLongestPattern) {
    error = "is longer than " + std::to_string(kLongestPattern) + " characters";
    return std::nullopt;
  }
  uint32_t options = PCRE2_DOLLAR_ENDONLY;
  if (dialect == Dialect::EcmaScript)
    options |=
        PCRE2_ALT_BSUX | PCRE2_MATCH_UNSET_BACKREF | PCRE2_ALLOW_EMPTY_CLASS;
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code *compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    options, &code, &offset, nullptr);
  if (!compiled) {
    unsigned char message[256] = {};
    pcre2_get_error_message(code, message, sizeof(message));
    error = "is not a regular expression at character " +
            std::to_string(offset + 1) + ": " +
            reinterpret_cast<const char *>(message);
    return std::nullopt;
  }
  NamePattern pattern;
  pattern.code = std::shared_ptr<void>(compiled, [](void *pointer) {
    pcre2_code_free(static_cast<pcre2_code *>(pointer));
  });
  return pattern;
}

NamePattern::Found NamePattern::search(llvm::StringRef name) const {
  auto *compiled = static_cast<pcre2_code *>(code.get());
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>
      context(pcre2_match_context_create(nullptr), pcre2_match_context_free);
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  if (!context || !match)
    return Found::TooCostly;
  pcre2_set_match_limit(context.get(), kMostSteps);
  pcre2_set_depth_limit(context.get(), kMostSteps);
  int found = pcre2_match(compiled, reinterpret_cast<PCRE2_SPTR>(name.data()),
                          name.size(), 0, 0, match.get(), context.get());
  if (found == PCRE2_ERROR_NOMATCH)
    return Found::No;
  // 0 means a match with more groups than requested.
  return found >= 0 ? Found::Yes : Found::TooCostly;
}
