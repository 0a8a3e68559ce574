#include "runtime/serve/api/anthropic/BillingHeader.h"

#include <algorithm>
#include <string_view>

namespace moert {

/// Removes " NAME=VALUE;" from the beginning; the last one may lack its
/// semicolon before the end of the line or of the text. Returns whether it was
/// there.
static bool removePair(std::string_view &text) {
  const size_t name = std::min(text.find_first_not_of(" \t"), text.size());
  const size_t equals = text.find('=', name);
  if (equals == text.npos || equals == name ||
      text.substr(name, equals - name).find_first_of(" \t\r\n;:") != text.npos)
    return false;
  const size_t end =
      std::min(text.find_first_of("; \t\r\n", equals), text.size());
  if (end < text.size() && text[end] != ';' && text[end] != '\n')
    return false;
  text.remove_prefix(std::min(end + 1, text.size()));
  return true;
}

std::string withoutBillingHeader(std::string system) {
  constexpr std::string_view begin = "x-anthropic-billing-header:";
  std::string_view rest = system;
  if (!rest.starts_with(begin))
    return system;
  rest.remove_prefix(begin.size());
  while (removePair(rest)) {
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
  return std::string(rest);
}

} // namespace moert
