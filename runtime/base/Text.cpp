#include "runtime/base/Text.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace moert {

namespace {
bool drivesTerminal(uint32_t codePoint) {
  if (codePoint < 0x20)
    return codePoint != '\n' && codePoint != '\t';
  return (codePoint >= 0x7f && codePoint < 0xa0) ||
         (codePoint >= 0x202a && codePoint <= 0x202e) ||
         (codePoint >= 0x2066 && codePoint <= 0x2069);
}

/// Replaces characters that are unsafe on a terminal by the result of
/// `character(bytes, codePoint)`, and invalid bytes by `invalid(bytes)`.
template <typename Character, typename Invalid>
std::string replaceUnsafe(std::string_view text, Character character,
                          Invalid invalid) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    Utf8Unit unit = nextUtf8(text);
    std::string_view bytes = text.substr(0, unit.length);
    text.remove_prefix(unit.length);
    if (unit.kind != Utf8Kind::Valid)
      result += invalid(bytes);
    else if (uint32_t code = decodeUtf8(bytes.data(), unit.length);
             drivesTerminal(code))
      result += character(bytes, code);
    else
      result += bytes;
  }
  return result;
}

/// Maximum bytes of a text from a file or user in a message.
constexpr size_t kLongestShown = 96;

/// Returns \xNN for every byte.
std::string hexEscapes(std::string_view bytes) {
  std::string result;
  for (unsigned char byte : bytes)
    fmt::format_to(std::back_inserter(result), "\\x{:02x}", byte);
  return result;
}
} // namespace

std::string terminalSafe(std::string_view text) {
  return replaceUnsafe(
      text, [](std::string_view bytes, uint32_t) { return hexEscapes(bytes); },
      hexEscapes);
}

std::string terminalSafeJson(std::string_view json) {
  return replaceUnsafe(
      json,
      [](std::string_view, uint32_t code) {
        return fmt::format("\\u{:04x}", code);
      },
      [](std::string_view) { return replacementCharacter; });
}

std::string escaped(std::string_view text) {
  std::string result;
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    if (c < 0x20 || c > 0x7e)
      fmt::format_to(std::back_inserter(result), "\\x{:02x}", c);
    else
      result += static_cast<char>(c);
  }
  return result;
}

std::string quoted(std::string_view text) {
  return fmt::format("\"{}{}\"", escaped(text.substr(0, kLongestShown)),
                     text.size() > kLongestShown ? "..." : "");
}

std::string clipped(std::string_view text) {
  if (text.size() <= kLongestShown)
    return std::string(text);
  size_t end = kLongestShown;
  auto isInside = [&] { return (uint8_t(text[end]) & 0xc0) == 0x80; };
  while (end > 0 && isInside())
    --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string printable(std::string_view text) {
  bool plain = std::all_of(text.begin(), text.end(),
                           [](char c) { return c >= 0x20 && c < 0x7f; });
  return plain && !text.empty() && text.size() <= 80 ? std::string(text)
                                                     : quoted(text);
}

std::string counted(unsigned long long count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string humanBytes(double bytes) {
  constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.2f} {}", bytes, units[unit]);
}

std::string sizeWord(uint64_t bytes) {
  constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, units[unit]);
}

std::string humanCount(uint64_t count) {
  constexpr std::string_view units[] = {"", " K", " M", " B", " T"};
  double value = double(count);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f}{}", value, unit == 0 ? 0 : 2, units[unit]);
}

} // namespace moert
