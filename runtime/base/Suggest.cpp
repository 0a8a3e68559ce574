#include "runtime/base/Suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>
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
  // Rows i - 2, i - 1 and i of the table of distances between a[0, i) and b[0,
  // j).
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1),
      row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string>
closestMatch(std::string_view name, std::span<const std::string> candidates) {
  // Longer names are not typos, and the time is quadratic in the length.
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
