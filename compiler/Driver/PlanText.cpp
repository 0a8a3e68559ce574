#include "compiler/Driver/PlanText.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {
constexpr int kMostNesting = 256;

bool isWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

/// Returns the position after the string that begins at `at`. As in MLIR, the
/// end of a line also ends a string.
size_t skipString(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    at += text[at] == '\\';
  return at + 1;
}

Status errorAt(std::string_view name, std::string_view text, size_t at,
               std::string_view message) {
  std::string_view before = text.substr(0, at);
  return Status(StatusCode::InvalidFile,
                fmt::format("{}:{}:{}: {}", name,
                            1 + std::ranges::count(before, '\n'),
                            at - (before.rfind('\n') + 1) + 1, message));
}
} // namespace

Status checkPlanText(std::string_view name, std::string_view text) {
  if (text.starts_with("ML\xefR"))
    return Status(StatusCode::InvalidFile,
                  std::string(name) + ": is MLIR bytecode; give text");
  int depth = 0;
  for (size_t at = 0; at < text.size();) {
    std::string_view rest = text.substr(at);
    char c = rest.front();
    if (c == '"') {
      at = skipString(text, at);
    } else if (rest.starts_with("//")) {
      at = std::min(text.size(), text.find('\n', at));
    } else if (rest.starts_with("->")) {
      at += 2;
    } else if (isWord(c)) {
      size_t end = at;
      while (end < text.size() && isWord(text[end]))
        ++end;
      if (rest.starts_with("affine_"))
        return errorAt(name, text, at, "plans have no affine maps");
      at = end;
    } else {
      if (std::string_view("([{<").find(c) != std::string_view::npos &&
          ++depth > kMostNesting)
        return errorAt(
            name, text, at,
            fmt::format("brackets are nested more than {} deep", kMostNesting));
      if (std::string_view(")]}>").find(c) != std::string_view::npos)
        depth = std::max(0, depth - 1);
      ++at;
    }
  }
  return Status::ok();
}

} // namespace moec
