#include "runtime/constrain/TextList.h"

#include "runtime/constrain/CharNfa.h"

#include <algorithm>
#include <bit>
#include <ranges>
#include <set>

namespace moert {

void setBit(Bits &bits, size_t at) {
  if (bits.size() <= at / 64)
    bits.resize(at / 64 + 1, 0);
  bits[at / 64] |= uint64_t(1) << at % 64;
}

bool areAllSet(const Bits &bits, size_t first, size_t last) {
  while (first < last) {
    const uint64_t word = first / 64 < bits.size() ? bits[first / 64] : 0;
    first += size_t(std::countr_one(word >> first % 64));
    if (first < last && !hasBit(bits, first))
      return false;
  }
  return true;
}

std::shared_ptr<const TextList>
TextList::of(std::vector<std::string_view> texts) {
  std::ranges::sort(texts);
  texts.erase(std::ranges::unique(texts).begin(), texts.end());
  std::shared_ptr<TextList> list(new TextList());
  size_t bytes = 0, count = 0;
  while (count < texts.size() && bytes + texts[count].size() < kMostBytes)
    bytes += texts[count++].size() + 1;
  list->bytes_.reserve(bytes);
  list->starts_.reserve(count);
  for (std::string_view text : texts | std::views::take(count)) {
    list->starts_.push_back(uint32_t(list->bytes_.size()));
    list->bytes_.append(text) += '\0';
  }
  return list;
}

std::string_view TextList::operator[](size_t index) const {
  const size_t end =
      index + 1 < starts_.size() ? starts_[index + 1] : bytes_.size();
  return std::string_view(bytes_).substr(starts_[index],
                                         end - 1 - starts_[index]);
}

size_t TextList::indexOf(StateId state) const {
  return size_t(std::ranges::upper_bound(starts_, uint32_t(state)) -
                starts_.begin()) -
         1;
}

TextList::Range TextList::rangeOf(StateId state) const {
  const size_t first = indexOf(state);
  const size_t depth = size_t(state) - starts_[first];
  const std::string_view prefix = (*this)[first].substr(0, depth);
  auto behind = std::views::iota(first + 1, size());
  const auto last = std::ranges::partition_point(
      behind, [&](size_t i) { return (*this)[i].substr(0, depth) == prefix; });
  return {first, first + 1 + size_t(last - behind.begin()), depth};
}

size_t TextList::lowerBound(const Range &range, std::string_view rest) const {
  auto all = std::views::iota(range.first, range.last);
  return range.first +
         size_t(std::ranges::partition_point(all,
                                             [&](size_t i) {
                                               return (*this)[i].substr(
                                                          range.depth) < rest;
                                             }) -
                all.begin());
}

TextList::StateId TextList::next(StateId from, uint32_t c,
                                 const Bits *without) const {
  if (from == kDead || (c >= 0xD800 && c <= 0xDFFF))
    return kDead;
  const Range range = rangeOf(from);
  const std::string character = encodeUtf8(c);
  const size_t found = lowerBound(range, character);
  if (found == range.last ||
      !(*this)[found].substr(range.depth).starts_with(character))
    return kDead;
  const auto to = StateId(starts_[found] + range.depth + character.size());
  if (without && areAllSet(*without, found, rangeOf(to).last))
    return kDead;
  return to;
}

bool TextList::accepts(StateId state, const Bits *without) const {
  if (state == kDead)
    return false;
  // A text comes before those that go on after it.
  const size_t index = indexOf(state);
  return size_t(state) - starts_[index] == (*this)[index].size() &&
         !(without && hasBit(*without, index));
}

uint32_t TextList::firstFrom(StateId state, uint32_t c) const {
  if (state == kDead || c > CharSet::kMaxCodePoint)
    return kNoChar;
  const Range range = rangeOf(state);
  // Surrogates have no bytes of their own.
  const size_t found =
      lowerBound(range, encodeUtf8(c >= 0xD800 && c <= 0xDFFF ? 0xE000 : c));
  if (found == range.last)
    return kNoChar;
  const uint32_t first =
      codePointsOf((*this)[found].substr(range.depth, 4)).front();
  return first < c ? kNoChar : first; // kNoChar if the bytes are not UTF-8.
}

std::vector<uint32_t> TextList::chars() const {
  std::set<uint32_t> chars;
  for (size_t i = 0; i < size(); ++i)
    for (uint32_t c : codePointsOf((*this)[i]))
      chars.insert(c);
  return {chars.begin(), chars.end()};
}

uint64_t TextList::hash() const {
  return std::hash<std::string>()(bytes_) + size();
}

} // namespace moert
