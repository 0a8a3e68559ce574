#include "runtime/base/Suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace moert {

namespace {
std::string lower(std::string_view text) {
  std::string result(text);
  for (char &c : result)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}
} // namespace

size_t editDistance(std::string_view a, std::string_view b) {
  // row[j] is the distance of a[0, i) and b[0, j).
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::optional<std::string>
closestMatch(std::string_view name, std::span<const std::string> candidates) {
  // A longer name is no typo, and the distance is quadratic in its length.
  constexpr size_t maxLength = 256;
  if (name.size() > maxLength)
    return std::nullopt;
  std::string wanted = lower(name);
  size_t best = name.size() / 3 + 1;
  std::optional<std::string> match;
  for (const std::string &candidate : candidates) {
    if (candidate.size() > maxLength)
      continue;
    size_t distance = editDistance(wanted, lower(candidate));
    if (distance < best) {
      best = distance;
      match = candidate;
    }
  }
  return match;
}

} // namespace moert
