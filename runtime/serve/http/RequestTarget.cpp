#include "runtime/serve/http/RequestTarget.h"

#include "runtime/base/Text.h"
#include "runtime/base/Utf8.h"
#include "runtime/serve/http/Words.h"

#include <algorithm>

namespace moert {

namespace {
Status malformed(std::string message) {
  return Status(StatusCode::InvalidFile, std::move(message));
}

int hexValue(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

/// Replaces %XX, and "+" by a space where `plusIsSpace`.
StatusOr<std::string> decode(std::string_view text, bool plusIsSpace) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      int high = i + 2 < text.size() ? hexValue(text[i + 1]) : -1;
      int low = i + 2 < text.size() ? hexValue(text[i + 2]) : -1;
      if (high < 0 || low < 0)
        return malformed("% is not followed by two hexadecimal digits in " +
                         moert::quoted(text) +
                         "; write %25 for a percent sign");
      c = char(high * 16 + low);
      i += 2;
    } else if (c == '+' && plusIsSpace) {
      c = ' ';
    }
    result += c;
  }
  if (validUtf8Prefix(result) != result.size())
    return malformed(moert::quoted(text) + " is not UTF-8 when decoded");
  return result;
}

Status checkPath(std::string_view path) {
  if (std::any_of(path.begin(), path.end(),
                  [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return malformed("the path " + moert::quoted(path) +
                     " contains a control character");
  for (std::string_view segment : split(path, '/'))
    if (segment == "." || segment == "..")
      return malformed("the path " + moert::quoted(path) +
                       " contains the segment \"" + std::string(segment) +
                       "\"; write it without");
  return Status::ok();
}

StatusOr<std::map<std::string, std::string>> parseQuery(std::string_view text) {
  std::map<std::string, std::string> query;
  for (std::string_view entry : split(text, '&')) {
    if (entry.empty())
      continue;
    size_t equals = entry.find('=');
    MOE_ASSIGN_OR_RETURN(std::string name,
                         decode(entry.substr(0, equals), true));
    std::string_view raw =
        equals == entry.npos ? std::string_view() : entry.substr(equals + 1);
    MOE_ASSIGN_OR_RETURN(query[name], decode(raw, true));
  }
  return query;
}
} // namespace

StatusOr<RequestTarget> parseTarget(std::string_view target) {
  RequestTarget result;
  if (target == "*") {
    result.path = "*";
    return result;
  }
  for (std::string_view scheme : {"http://", "https://"})
    if (equalsIgnoringCase(target.substr(0, scheme.size()), scheme)) {
      target.remove_prefix(scheme.size());
      size_t end = target.find_first_of("/?");
      result.authority = target.substr(0, end);
      target = end == target.npos ? "/" : target.substr(end);
      if (result.authority.empty())
        return malformed("the request's address names no host");
      break;
    }
  if (target.find('#') != target.npos)
    return malformed("the request's address " + moert::quoted(target) +
                     " contains \"#\"; write %23");
  size_t question = target.find('?');
  std::string_view path = target.substr(0, question);
  if (path.empty() && !result.authority.empty())
    path = "/";
  if (!path.starts_with('/'))
    return malformed("the request's address " + moert::quoted(target) +
                     " does not begin with \"/\"");
  MOE_ASSIGN_OR_RETURN(result.path, decode(path, false));
  MOE_RETURN_IF_ERROR(checkPath(result.path));
  if (question != target.npos) {
    MOE_ASSIGN_OR_RETURN(result.query, parseQuery(target.substr(question + 1)));
  }
  return result;
}

} // namespace moert
