#include "compiler/Explain/OpPattern.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace moec {

//===----------------------------------------------------------------------===//
// Globs
//===----------------------------------------------------------------------===//

namespace {

class Glob {
public:
  bool match(std::string_view pattern, std::string_view text) {
    while (!pattern.empty()) {
      if (steps_ == 0)
        return false;
      --steps_;
      if (pattern.front() == '*')
        return matchStar(pattern.substr(1), text);
      if (pattern.front() == '{')
        if (size_t end = pattern.find('}'); end != pattern.npos)
          return matchBraces(pattern.substr(1, end - 1),
                             pattern.substr(end + 1), text);
      if (text.empty() || !takeOne(pattern, text.front()))
        return false;
      text.remove_prefix(1);
    }
    return text.empty();
  }

private:
  bool matchStar(std::string_view rest, std::string_view text) {
    for (size_t taken = 0; taken <= text.size(); ++taken)
      if (match(rest, text.substr(taken)))
        return true;
    return false;
  }

  bool matchBraces(std::string_view choices, std::string_view rest,
                   std::string_view text) {
    while (true) {
      size_t comma = std::min(choices.find(','), choices.size());
      if (match(std::string(choices.substr(0, comma)) + std::string(rest),
                text))
        return true;
      if (comma == choices.size())
        return false;
      choices.remove_prefix(comma + 1);
    }
  }

  /// Removes what stands for one character from the pattern; returns whether
  /// that is `c`.
  static bool takeOne(std::string_view &pattern, char c) {
    char first = pattern.front();
    // The first character of a set may be the bracket itself.
    size_t end = first == '[' ? pattern.find(']', 2) : pattern.npos;
    if (end == pattern.npos) {
      pattern.remove_prefix(1);
      return first == '?' || first == c;
    }
    std::string_view set = pattern.substr(1, end - 1);
    pattern.remove_prefix(end + 1);
    bool isInverted = set.front() == '!' || set.front() == '^';
    if (isInverted)
      set.remove_prefix(1);
    bool isIn = false;
    for (size_t i = 0; i < set.size(); ++i) {
      bool isRange = i + 2 < set.size() && set[i + 1] == '-';
      isIn |= set[i] <= c && c <= (isRange ? set[i + 2] : set[i]);
      i += isRange ? 2 : 0;
    }
    return isIn != isInverted;
  }

  /// A label has some tens of characters, so that only patterns with many stars
  /// or braces need more.
  unsigned steps_ = 100000;
};

} // namespace

bool matchesGlob(std::string_view pattern, std::string_view text) {
  // Each star is a level of recursion.
  constexpr size_t kLongest = 1024;
  return pattern.size() <= kLongest && Glob().match(pattern, text);
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

namespace {

std::optional<int> takeNumber(std::string_view &text) {
  int number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-')
    return std::nullopt;
  text.remove_prefix(size_t(end - text.data()));
  return number;
}

bool take(std::string_view &text, std::string_view what) {
  if (!text.starts_with(what))
    return false;
  text.remove_prefix(what.size());
  return true;
}

/// Takes a list such as "0-2,5" or "0..26" and the point behind it; returns no
/// ranges and changes nothing if there is none.
std::vector<std::pair<int, int>> takeLayers(std::string_view &text) {
  std::vector<std::pair<int, int>> ranges;
  std::string_view rest = text;
  do {
    std::optional<int> first = takeNumber(rest), last = first;
    if (first && (take(rest, "-") || take(rest, "..")))
      last = takeNumber(rest);
    if (!first || !last)
      return {};
    ranges.emplace_back(*first, *last);
  } while (take(rest, ","));
  if (!rest.empty() && !take(rest, "."))
    return {};
  text = rest;
  return ranges;
}

} // namespace

OpPattern::OpPattern(std::string_view text) : part_(text), text_(text) {
  std::string_view rest = text;
  if (!take(rest, "blk."))
    return;
  ranges_ = takeLayers(rest);
  if (ranges_.empty()) {
    // A pattern such as "blk.*" has no part.
    size_t point = std::min(rest.find('.'), rest.size());
    layerGlob_ = rest.substr(0, point);
    rest.remove_prefix(std::min(point + 1, rest.size()));
  }
  namesLayer_ = true;
  part_ = rest;
}

bool OpPattern::hasLayer(int layer) const {
  if (ranges_.empty())
    return matchesGlob(layerGlob_, std::to_string(layer));
  for (auto [first, last] : ranges_)
    if (first <= layer && layer <= last)
      return true;
  return false;
}

OpPattern::Match OpPattern::match(std::string_view part, int layer) const {
  if (text_.empty() || (namesLayer_ && (layer < 0 || !hasLayer(layer))))
    return Match::None;
  std::string label =
      layer < 0 ? std::string(part)
                : "blk." + std::to_string(layer) + "." + std::string(part);
  // A layer alone means all its parts; of "ffn_experts", "ffn_experts.0-33" is
  // a slice.
  std::string own(part_.empty() ? "*" : part_);
  for (const std::string &glob : {own, own + ".*"})
    if (matchesGlob(glob, part))
      return Match::Whole;
  if (matchesGlob(text_, label))
    return Match::Whole;
  return matchesGlob("*" + std::string(part_) + "*",
                     namesLayer_ ? std::string(part) : label)
             ? Match::Part
             : Match::None;
}

} // namespace moec
