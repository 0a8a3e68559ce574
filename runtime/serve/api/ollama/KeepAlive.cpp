#include "runtime/serve/api/ollama/KeepAlive.h"

#include <charconv>
#include <string_view>

namespace moert {

namespace {
/// Longer times mean for ever.
constexpr double kMostSeconds = 1e9;

struct Unit {
  std::string_view name;
  double seconds;
};
/// A name comes before those that it begins with.
constexpr Unit kUnits[] = {{"ns", 1e-9},      {"us", 1e-6}, {"\u00B5s", 1e-6},
                           {"\u03BCs", 1e-6}, {"ms", 1e-3}, {"s", 1},
                           {"m", 60},         {"h", 3600}};

/// The seconds of a duration such as "1h30m", "-1s" or "300"; nothing for any
/// other text.
std::optional<double> secondsOf(std::string_view text) {
  const bool isNegative = text.starts_with('-');
  if (isNegative || text.starts_with('+'))
    text.remove_prefix(1);
  if (text.empty())
    return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(),
                                        number, std::chars_format::fixed);
    if (error != std::errc() || !(number >= 0))
      return std::nullopt;
    text.remove_prefix(size_t(end - text.data()));
    const Unit *found = nullptr;
    for (const Unit &unit : kUnits)
      if (!found && text.starts_with(unit.name))
        found = &unit;
    // A number alone is of seconds.
    if (!found && !(text.empty() && sum == 0))
      return std::nullopt;
    sum += number * (found ? found->seconds : 1);
    text.remove_prefix(found ? found->name.size() : 0);
  }
  return isNegative ? -sum : sum;
}
} // namespace

ModelHost::KeepTime readKeepAlive(const Field &field) {
  if (!field)
    return std::nullopt;
  std::optional<double> seconds;
  if (field.isText())
    seconds = secondsOf(*field.text());
  else if (field.json().is_number())
    seconds = field.json().get<double>();
  if (!seconds) {
    field.mustBe("a number of seconds, or a duration such as 5m");
    return std::nullopt;
  }
  if (*seconds < 0 || *seconds > kMostSeconds)
    return std::chrono::milliseconds::max();
  return std::chrono::milliseconds(int64_t(*seconds * 1000));
}

} // namespace moert
