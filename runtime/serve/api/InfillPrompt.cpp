#include "runtime/serve/api/Prompts.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>

namespace moert {

namespace {
/// Names that families give to the tokens of infilling. `repository` and
/// `file` head the files of a repository; they may be "".
struct InfillNames {
  std::string_view prefix, suffix, middle, repository, file;
};
constexpr std::array kInfillNames = {
    // Qwen, Granite
    InfillNames{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
                "<|repo_name|>", "<|file_sep|>"},
    // StarCoder
    InfillNames{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>",
                "<file_sep>"},
    // DeepSeek-Coder
    InfillNames{"<\uFF5Cfim\u2581begin\uFF5C>", "<\uFF5Cfim\u2581hole\uFF5C>",
                "<\uFF5Cfim\u2581end\uFF5C>", "", ""},
    // GLM
    InfillNames{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "",
                ""},
    // Code Llama
    InfillNames{"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", "", ""},
};

/// The name of the repository and of the file that is being written, which
/// requests do not tell.
constexpr std::string_view kRepository = "myproject", kCurrentFile = "filename";

/// Tokens that are kept free for the answer if the request has no limit.
constexpr int64_t kAnswerTokens = 256;

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

/// `text` with a breaker after the first byte of every name of these tokens:
/// files may declare them as ordinary ones, which are found in any text.
std::string withBrokenNames(std::string_view text, const InfillNames &names) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    result += text[at];
    for (std::string_view name : {names.prefix, names.suffix, names.middle,
                                  names.repository, names.file})
      if (!name.empty() && text.substr(at).starts_with(name)) {
        // All names begin with "<", but for Code Llama's, which begin with a
        // character of three bytes.
        for (size_t more = name[0] == '<' ? 0 : 2; more > 0; --more)
          result += text[++at];
        result += kNameBreaker;
        break;
      }
  }
  return result;
}

/// Encodes texts of files, which are no tokens of control, whatever they say.
class FileEncoder {
public:
  FileEncoder(const Tokenizer &tokenizer, const InfillNames &names,
              const Deadline &deadline)
      : tokenizer_(tokenizer), names_(names), deadline_(deadline) {}

  std::vector<int32_t> operator()(std::string_view text) {
    auto tokens = tokenizer_.encode(withBrokenNames(text, names_),
                                    {.addBos = false,
                                     .addEos = false,
                                     .parseSpecial = false,
                                     .breaker = kNameBreaker,
                                     .startsText = false,
                                     .deadline = deadline_});
    if (tokens)
      return *std::move(tokens);
    status_ = tokens.status();
    return {};
  }
  /// Error of the last text that could not be encoded.
  const Status &status() const { return status_; }

private:
  const Tokenizer &tokenizer_;
  const InfillNames &names_;
  const Deadline deadline_;
  Status status_;
};

void append(std::vector<int32_t> &to, const std::vector<int32_t> &tokens) {
  to.insert(to.end(), tokens.begin(), tokens.end());
}

/// Keeps the end of the prefix and the beginning of the suffix that fit into
/// `room` tokens: three quarters for the prefix, and what one leaves the other.
void fit(std::vector<int32_t> &prefix, std::vector<int32_t> &suffix,
         int64_t room) {
  const auto before = int64_t(prefix.size()), after = int64_t(suffix.size());
  if (before + after <= room)
    return;
  const int64_t keptBefore =
      std::min(before, std::max(room - room / 4, room - after));
  prefix.erase(prefix.begin(), prefix.end() - keptBefore);
  suffix.resize(size_t(std::min(after, room - keptBefore)));
}
} // namespace

std::variant<ChatPrompt, ApiError> infillPrompt(const Backend &backend,
                                                const InfillRequest &request) {
  const Tokenizer &tokenizer = backend.tokenizer();
  const InfillNames *names = nullptr;
  std::optional<int32_t> before, after, middle;
  for (const InfillNames &candidate : kInfillNames) {
    before = tokenNamed(tokenizer, candidate.prefix);
    after = tokenNamed(tokenizer, candidate.suffix);
    middle = tokenNamed(tokenizer, candidate.middle);
    if (before && after && middle) {
      names = &candidate;
      break;
    }
  }
  if (!names)
    return ApiError{
        .status = 501,
        .message = fmt::format(
            "the vocabulary of {} has no tokens for infilling, such as "
            "<|fim_prefix|>: use a model that was trained for it",
            backend.facts().id),
        .code = "infill_not_supported"};

  FileEncoder encode(tokenizer, *names, request.deadline);
  std::vector<int32_t> prefix = encode(request.prefix),
                       suffix = encode(request.suffix);
  std::vector<int32_t> start;
  if (auto empty = tokenizer.encode("", {.addEos = false}))
    start = *std::move(empty);
  int64_t room = INT64_MAX;
  if (const int64_t context = backend.facts().contextTokens; context > 0) {
    constexpr int64_t marks = 3;
    const int64_t answer =
        request.maxTokens > 0
            ? std::min<int64_t>(request.maxTokens, context / 2)
            : std::min(kAnswerTokens, context / 4);
    room =
        std::max<int64_t>(0, context - answer - marks - int64_t(start.size()));
    fit(prefix, suffix, room);
    room -= int64_t(prefix.size() + suffix.size());
  }

  // The last files matter most: the first ones are left out.
  auto repository = tokenNamed(tokenizer, names->repository);
  auto file = tokenNamed(tokenizer, names->file);
  std::vector<int32_t> files;
  if (file && !request.extra.empty()) {
    auto headed = [&](std::string_view name, std::string_view text) {
      std::vector<int32_t> tokens{*file};
      append(tokens, encode(fmt::format("{}\n{}", name, text)));
      return tokens;
    };
    std::vector<int32_t> head, current = headed(kCurrentFile, "");
    if (repository) {
      head.push_back(*repository);
      append(head, encode(fmt::format("{}\n", kRepository)));
    }
    room -= int64_t(head.size() + current.size());
    size_t first = request.extra.size();
    std::vector<std::vector<int32_t>> kept;
    while (first > 0) {
      const auto &[name, text] = request.extra[first - 1];
      std::vector<int32_t> tokens = headed(name, text);
      if (int64_t(tokens.size()) > room)
        break;
      room -= int64_t(tokens.size());
      kept.push_back(std::move(tokens));
      --first;
    }
    if (!kept.empty()) {
      files = std::move(head);
      for (size_t i = kept.size(); i-- > 0;)
        append(files, kept[i]);
      append(files, current);
    }
  }
  if (!encode.status())
    return errorOf(encode.status());

  ChatPrompt prompt{.text = {}, .tokens = std::move(start)};
  append(prompt.tokens, files);
  prompt.tokens.push_back(*before);
  append(prompt.tokens, prefix);
  prompt.tokens.push_back(*after);
  append(prompt.tokens, suffix);
  prompt.tokens.push_back(*middle);
  for (int32_t token : prompt.tokens)
    prompt.text += tokenizer.tokenBytes(token);
  return prompt;
}

} // namespace moert
