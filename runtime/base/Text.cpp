#include "runtime/base/Text.h"

#include <fmt/format.h>
#include <iterator>

namespace moert {

std::string quoted(std::string_view text) {
  constexpr size_t longest = 96;
  std::string result = "\"";
  for (unsigned char c : text.substr(0, longest)) {
    if (c == '"' || c == '\\')
      result += '\\';
    if (c < 0x20 || c > 0x7e)
      fmt::format_to(std::back_inserter(result), "\\x{:02x}", c);
    else
      result += static_cast<char>(c);
  }
  return result + (text.size() > longest ? "...\"" : "\"");
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

} // namespace moert
