#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace moert {

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
  constexpr size_t longest = 96;
  return fmt::format("\"{}{}\"", escaped(text.substr(0, longest)),
                     text.size() > longest ? "..." : "");
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
