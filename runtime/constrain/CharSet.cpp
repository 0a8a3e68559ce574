//===- CharSet.cpp - Sets of code points ----------------------------------===//

#include "runtime/constrain/CharSet.h"

#include <algorithm>

namespace moert {

namespace {
constexpr CharSet::Range kSurrogates = {0xD800, 0xDFFF};
/// The largest code points with encodings of 1, 2, 3 and 4 bytes.
constexpr uint32_t kLargest[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};

/// Adds the sequences of a range of code points whose encodings have the same
/// length.
void addSameLength(uint32_t first, uint32_t last,
                   std::vector<Utf8Sequence> &out) {
  // A trailing group of 6 * n bits must be complete, unless the leading bits of
  // both ends are equal.
  for (int n = 1; n < 4; ++n) {
    uint32_t mask = (1u << (6 * n)) - 1;
    if ((first & ~mask) == (last & ~mask))
      continue;
    if ((first & mask) != 0) {
      addSameLength(first, first | mask, out);
      addSameLength((first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      addSameLength(first, (last & ~mask) - 1, out);
      addSameLength(last & ~mask, last, out);
      return;
    }
  }
  std::string low = encodeUtf8(first), high = encodeUtf8(last);
  Utf8Sequence sequence;
  for (size_t i = 0; i < low.size(); ++i)
    sequence.push_back({uint8_t(low[i]), uint8_t(high[i])});
  out.push_back(std::move(sequence));
}
} // namespace

CharSet::CharSet(std::initializer_list<Range> ranges) : ranges_(ranges) {
  normalise();
}

void CharSet::add(Range range) {
  ranges_.push_back(range);
  normalise();
}

void CharSet::add(const CharSet &other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalise();
}

void CharSet::normalise() {
  std::vector<Range> parts;
  for (Range range : ranges_) {
    range.last = std::min(range.last, kMaxCodePoint);
    if (range.first < kSurrogates.first && range.first <= range.last)
      parts.push_back(
          {range.first, std::min(range.last, kSurrogates.first - 1)});
    uint32_t above = std::max(range.first, kSurrogates.last + 1);
    if (above <= range.last)
      parts.push_back({above, range.last});
  }
  std::ranges::sort(parts, {}, &Range::first);
  ranges_.clear();
  for (Range range : parts) {
    bool touches =
        !ranges_.empty() && (range.first <= ranges_.back().last + 1 ||
                             (ranges_.back().last == kSurrogates.first - 1 &&
                              range.first == kSurrogates.last + 1));
    // Neighbours of the surrogates stay apart: encodings differ there.
    if (touches && range.first != kSurrogates.last + 1)
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    else
      ranges_.push_back(range);
  }
}

CharSet CharSet::complement() const {
  CharSet result;
  uint32_t next = 0;
  for (Range range : ranges_) {
    if (next < range.first)
      result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint)
    result.ranges_.push_back({next, kMaxCodePoint});
  result.normalise();
  return result;
}

CharSet CharSet::intersection(const CharSet &other) const {
  CharSet result;
  for (Range a : ranges_)
    for (Range b : other.ranges_)
      if (uint32_t first = std::max(a.first, b.first),
          last = std::min(a.last, b.last);
          first <= last)
        result.ranges_.push_back({first, last});
  result.normalise();
  return result;
}

CharSet CharSet::without(const CharSet &other) const {
  return intersection(other.complement());
}

bool CharSet::contains(uint32_t c) const {
  return std::ranges::any_of(ranges_, [&](Range range) {
    return range.first <= c && c <= range.last;
  });
}

std::vector<Utf8Sequence> utf8Sequences(const CharSet &set) {
  std::vector<Utf8Sequence> result;
  for (CharSet::Range range : set.ranges()) {
    uint32_t first = range.first;
    for (uint32_t largest : kLargest) {
      if (first > largest || first > range.last)
        continue;
      addSameLength(first, std::min(range.last, largest), result);
      first = largest + 1;
    }
  }
  return result;
}

std::string encodeUtf8(uint32_t c) {
  auto trail = [&](int shift) { return char(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80)
    return {char(c)};
  if (c < 0x800)
    return {char(0xC0 | c >> 6), trail(0)};
  if (c < 0x10000)
    return {char(0xE0 | c >> 12), trail(6), trail(0)};
  return {char(0xF0 | c >> 18), trail(12), trail(6), trail(0)};
}

} // namespace moert
