#include "compiler/Explain/Figures.h"

#include <fmt/format.h>
#include <initializer_list>
#include <string_view>

namespace moec {

/// Formats a value with three digits and a unit: "1.23 ms", "12.3 G". The first
/// unit is `scale`, and each further one is `step` times the previous one.
static std::string scaled(double value, double scale, double step,
                          std::initializer_list<std::string_view> units) {
  if (value == 0)
    return "0";
  if (value < 0)
    return "-" + scaled(-value, scale, step, units);
  const std::string_view *unit = units.begin();
  // 999.5 would print with four digits.
  for (; unit + 1 != units.end() && value >= 999.5 * scale; ++unit)
    scale *= step;
  double shown = value / scale;
  int decimals = shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
  return (shown < 999999 ? fmt::format("{:.{}f}", shown, decimals)
                         : fmt::format("{:.2e}", shown)) +
         std::string(*unit);
}

std::string humanSeconds(double seconds) {
  return scaled(seconds, 1e-9, 1000, {" ns", " us", " ms", " s"});
}

std::string humanFlops(double flops) {
  return scaled(flops, 1, 1000, {"", " K", " M", " G", " T", " P"});
}

std::string shortBytes(double bytes) {
  return scaled(bytes, 1, 1024, {" B", " KiB", " MiB", " GiB", " TiB", " PiB"});
}

std::string rateText(double rate) {
  return scaled(rate, 1, 1000, {""}) + " tokens/s";
}

std::string shareText(double part, double all) {
  return fmt::format("{:.1f}", all > 0 ? 100 * part / all : 0);
}

} // namespace moec
