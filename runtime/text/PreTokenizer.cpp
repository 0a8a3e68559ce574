//===- PreTokenizer.cpp ---------------------------------------------------===//

#include "runtime/text/PreTokenizer.h"

#include "runtime/base/Suggest.h"
#include "runtime/base/Text.h"
#include "runtime/base/Utf8.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace moert {
namespace {

struct Entry {
  std::string_view name;
  Alphabet alphabet;
  WholeWords wholeWords;
  BosDefault bos;
  std::span<const char *const> passes;
};

std::span<const Entry> table() {
  // The passes of each entry are a separate constant, because an array of
  // structures cannot contain arrays of different lengths.
#define MOE_PRETOKENIZER(name, alphabet, wholeWords, bos, ...)                 \
  Entry{name, Alphabet::alphabet, WholeWords::wholeWords, BosDefault::bos,     \
        [] {                                                                   \
          static constexpr const char *passes[] = {__VA_ARGS__};               \
          return std::span<const char *const>(passes);                         \
        }()},
  static const Entry entries[] = {
#include "runtime/text/PreTokenizers.def"
  };
  return entries;
}

/// Replaces \s and \S by the property that the published expressions mean.
std::string spellOutWhiteSpace(std::string_view expression) {
  std::string result;
  for (size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] != '\\' || i + 1 == expression.size()) {
      result += expression[i];
      continue;
    }
    char escaped = expression[++i];
    if (escaped == 's')
      result += "\\p{White_Space}";
    else if (escaped == 'S')
      result += "\\P{White_Space}";
    else
      result.append({'\\', escaped});
  }
  return result;
}

std::string lower(std::string_view name) {
  std::string result(name);
  std::ranges::transform(result, result.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return result;
}

std::string digitsOf(std::string_view name) {
  std::string digits(name);
  std::erase_if(digits, [](char c) { return c < '0' || c > '9'; });
  return digits;
}

std::string pcreMessage(int code) {
  std::array<PCRE2_UCHAR, 160> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char *>(buffer.data());
}

} // namespace

struct PreTokenizer::Pass {
  struct Free {
    void operator()(pcre2_code *code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> code;
};

struct PreTokenizer::Scratch::State {
  pcre2_match_data *match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context *context = pcre2_match_context_create(nullptr);
  // The stack grows on the heap up to 16 MiB; the expressions in the table use
  // only a part of its first page for any text.
  pcre2_jit_stack *stack = pcre2_jit_stack_create(32 << 10, 16 << 20, nullptr);

  State() { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }
};

PreTokenizer::Scratch::Scratch() : state_(std::make_unique<State>()) {}
PreTokenizer::Scratch::~Scratch() = default;

PreTokenizer::PreTokenizer(Alphabet alphabet, WholeWords wholeWords,
                           BosDefault bos)
    : alphabet_(alphabet), wholeWords_(wholeWords), bos_(bos) {}
PreTokenizer::PreTokenizer(PreTokenizer &&) noexcept = default;
PreTokenizer &PreTokenizer::operator=(PreTokenizer &&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

std::vector<std::string_view> PreTokenizer::supportedNames() {
  std::vector<std::string_view> names;
  for (const Entry &entry : table())
    names.push_back(entry.name);
  return names;
}

std::string PreTokenizer::knownNames() {
  return fmt::format("known are {}", fmt::join(supportedNames(), ", "));
}

std::optional<std::string_view> PreTokenizer::meantName(std::string_view name) {
  constexpr size_t mostEdits = 2;
  std::vector<std::string> sameVersion;
  for (const Entry &entry : table())
    if (digitsOf(entry.name) == digitsOf(name))
      sameVersion.emplace_back(entry.name);
  std::optional<std::string> match = closestMatch(name, sameVersion);
  if (!match || editDistance(lower(name), *match) > mostEdits)
    return std::nullopt;
  return std::ranges::find(table(), *match, &Entry::name)->name;
}

StatusOr<PreTokenizer> PreTokenizer::create(std::string_view name) {
  auto entry = std::ranges::find(table(), name, &Entry::name);
  if (entry == table().end()) {
    std::optional<std::string_view> meant = meantName(name);
    return Status(
        StatusCode::Unsupported,
        fmt::format("pre-tokenizer {} is not supported{}", quoted(name),
                    meant ? fmt::format("; did you mean {}?", *meant) : ""));
  }

  PreTokenizer result(entry->alphabet, entry->wholeWords, entry->bos);
  for (const char *expression : entry->passes) {
    std::string pattern = spellOutWhiteSpace(expression);
    int error = 0;
    PCRE2_SIZE place = 0;
    Pass pass{std::unique_ptr<pcre2_code, Pass::Free>(pcre2_compile(
        reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
        PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr))};
    if (!pass.code)
      return Status(StatusCode::Internal,
                    fmt::format("pre-tokenizer '{}': {} at offset {} of '{}'",
                                name, pcreMessage(error), place, pattern));
    // If the system forbids executable memory, this fails, and matching falls
    // back to PCRE2's interpreter, which is slower but gives the same results.
    pcre2_jit_compile(pass.code.get(), PCRE2_JIT_COMPLETE);
    result.passes_.push_back(std::move(pass));
  }
  return result;
}

Status PreTokenizer::split(std::string_view text, Scratch &scratch,
                           const OnWord &onWord) const {
  if (!scratch.state_->match || !scratch.state_->context)
    return {StatusCode::DoesNotFit, "no memory left to match text in"};
  // Every step of a match consumes or gives back a character, at most a few
  // times per alternative. A match that takes far more steps is out of control.
  uint64_t limit = 1000 + 64 * static_cast<uint64_t>(text.size());
  pcre2_set_match_limit(
      scratch.state_->context,
      static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));
  if (text.empty())
    return Status::ok();
  return splitPiece(0, text, 0, static_cast<uint32_t>(text.size()), scratch,
                    onWord);
}

/// Recurses depth-first, so that there is no list of intermediate pieces. The
/// depth is the number of passes.
Status PreTokenizer::splitPiece(size_t pass, std::string_view text,
                                uint32_t begin, uint32_t end, Scratch &scratch,
                                const OnWord &onWord) const {
  std::string_view piece = text.substr(begin, end - begin);
  // A single character cannot be split. Without this test, a text of eight
  // million line breaks would be matched once per pass and character.
  bool isSingle = nextUtf8(piece.substr(0, 4)).length == piece.size();
  if (pass == passes_.size() || isSingle)
    return onWord(end);

  Scratch::State &state = *scratch.state_;
  uint32_t done = 0;
  while (done < piece.size()) {
    int found = pcre2_match(
        passes_[pass].code.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()),
        piece.size(), done, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, state.match,
        state.context);
    if (found == PCRE2_ERROR_NOMATCH)
      break;
    if (found < 0)
      return {StatusCode::Internal,
              fmt::format("the pre-tokenizer's pass {} failed at byte {} of "
                          "the text: {}",
                          pass, begin + done, pcreMessage(found))};
    const PCRE2_SIZE *ovector = pcre2_get_ovector_pointer(state.match);
    uint32_t matchBegin = static_cast<uint32_t>(ovector[0]);
    uint32_t matchEnd = static_cast<uint32_t>(ovector[1]);
    if (matchBegin > done)
      MOE_RETURN_IF_ERROR(splitPiece(pass + 1, text, begin + done,
                                     begin + matchBegin, scratch, onWord));
    MOE_RETURN_IF_ERROR(splitPiece(pass + 1, text, begin + matchBegin,
                                   begin + matchEnd, scratch, onWord));
    done = matchEnd;
  }
  if (done < piece.size())
    return splitPiece(pass + 1, text, begin + done, end, scratch, onWord);
  return Status::ok();
}

} // namespace moert
