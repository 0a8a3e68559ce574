//===- Suggest.h - "Did you mean" for names ---------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_SUGGEST_H
#define MOE_RUNTIME_BASE_SUGGEST_H

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moert {

/// Returns the number of insertions, deletions, substitutions and swaps of
/// neighbours that turn `a` into `b` (restricted Damerau-Levenshtein distance).
size_t editDistance(std::string_view a, std::string_view b);

/// Returns the candidate nearest to `name` if it may be a typo: at most a third
/// of the name's characters differ, ignoring case. The first of equal ones
/// wins.
std::optional<std::string>
closestMatch(std::string_view name, std::span<const std::string> candidates);

} // namespace moert

#endif // MOE_RUNTIME_BASE_SUGGEST_H
