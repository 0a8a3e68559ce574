#include "runtime/base/ParseSize.h"

#include "runtime/base/Text.h"

#include <charconv>
#include <fmt/format.h>
#include <utility>

namespace moert {

StatusOr<int64_t> parseSize(std::string_view text) {
  constexpr std::pair<std::string_view, double> units[] = {{"B", 0x1p0},
                                                           {"KiB", 0x1p10},
                                                           {"MiB", 0x1p20},
                                                           {"GiB", 0x1p30},
                                                           {"TiB", 0x1p40}};
  constexpr double most = 0x1p50;
  double value = 0;
  const char *end = text.data() + text.size();
  // Signs, exponents, "inf" and "nan" are not accepted.
  auto [stop, error] =
      std::from_chars(text.data(), end, value, std::chars_format::fixed);
  std::string_view unit(stop, size_t(end - stop));
  if (unit.starts_with(' '))
    unit.remove_prefix(1);
  for (auto [name, scale] : units)
    if (error == std::errc() && unit == name && text.front() >= '0' &&
        text.front() <= '9' && value * scale >= 1 && value * scale <= most)
      return int64_t(value * scale);
  return Status(
      StatusCode::Usage,
      fmt::format("expected a size of at most 1024TiB such as 8GiB or "
                  "512MiB, found {}",
                  quoted(text)));
}

} // namespace moert
