//===- TokenizerSpec.cpp --------------------------------------------------===//

#include "runtime/text/TokenizerSpec.h"

#include <charconv>

namespace moert {

std::optional<uint8_t> parseByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>')
    return std::nullopt;
  uint8_t value = 0;
  const char *end = text.data() + 5;
  auto parsed = std::from_chars(text.data() + 3, end, value, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end)
    return std::nullopt;
  return value;
}

} // namespace moert
