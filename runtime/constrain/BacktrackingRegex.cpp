#include "runtime/constrain/Regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <pcre2.h>

namespace moert {

namespace {
/// Steps of one match of an expression of kShort bytes or less, and memory that
/// it may take.
constexpr uint32_t kMostSteps = 200'000, kMostKibibytes = 4096;
constexpr size_t kShort = 256, kMostPattern = 4096;
/// PCRE2 does not tell how many steps a match took, so that the limit rises
/// from the first until the match ends.
constexpr uint32_t kFirstSteps = 64, kRise = 16;

thread_local uint64_t work = 0;
} // namespace

uint64_t BacktrackingRegex::workOfThread() { return work; }

struct BacktrackingRegex::Code {
  pcre2_code *code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

BacktrackingRegex::~BacktrackingRegex() = default;

StatusOr<std::shared_ptr<const BacktrackingRegex>>
BacktrackingRegex::compile(std::string_view pattern, RegexMatch match) {
  auto failure = [](size_t offset, std::string_view message) {
    return Status(StatusCode::Usage, "pattern:1:" + std::to_string(offset + 1) +
                                         ": " + std::string(message));
  };
  if (pattern.size() > kMostPattern)
    return failure(kMostPattern, "the pattern is too long");
  pcre2_compile_context *context = pcre2_compile_context_create(nullptr);
  // \uHHHH and \u{H...} as ECMA-262 has them.
  pcre2_set_compile_extra_options(context, PCRE2_EXTRA_ALT_BSUX);
  uint32_t options = PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY |
                     PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C |
                     PCRE2_ALLOW_EMPTY_CLASS;
  if (match == RegexMatch::Whole)
    options |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                             pattern.size(), options, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (!code->code) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof message);
    return failure(offset, reinterpret_cast<const char *>(message));
  }
  std::shared_ptr<BacktrackingRegex> result(new BacktrackingRegex);
  result->code_ = std::move(code);
  result->bytes_ = pattern.size();
  result->mostSteps_ =
      uint32_t(kMostSteps * kShort / std::max(kShort, pattern.size()));
  return std::shared_ptr<const BacktrackingRegex>(std::move(result));
}

bool BacktrackingRegex::matches(std::string_view text) const {
  pcre2_match_data *match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context *context = pcre2_match_context_create(nullptr);
  pcre2_set_heap_limit(context, kMostKibibytes);
  int found = PCRE2_ERROR_MATCHLIMIT;
  for (uint32_t steps = kFirstSteps; found == PCRE2_ERROR_MATCHLIMIT;
       steps *= kRise) {
    const uint32_t limit = std::min(steps, mostSteps_);
    pcre2_set_match_limit(context, limit);
    found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                        text.size(), 0, 0, match, context);
    // A step takes about 10 ns, and a nanosecond more for each byte of the
    // expression that it passes over.
    work += limit * (10 + bytes_) / 100;
    if (limit == mostSteps_)
      break;
  }
  pcre2_match_context_free(context);
  pcre2_match_data_free(match);
  return found >= 0;
}

} // namespace moert
