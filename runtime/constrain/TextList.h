//===- TextList.h - Lists of texts, read as automata ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_TEXTLIST_H
#define MOE_RUNTIME_CONSTRAIN_TEXTLIST_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// A bit for each of some things; those beyond the end are 0.
using Bits = std::vector<uint64_t>;
inline bool hasBit(const Bits &bits, size_t at) {
  return at / 64 < bits.size() && (bits[at / 64] >> at % 64 & 1) != 0;
}
void setBit(Bits &bits, size_t at);
/// Whether all bits from `first` to before `last` are set.
bool areAllSet(const Bits &bits, size_t first, size_t last);

/// Different texts in ascending order, read code point by code point. It takes
/// their bytes and five more for each, and no states are made: a state is the
/// place in the first of the texts with the same beginning at which this
/// beginning ends. Immutable; threads may share it.
class TextList {
public:
  using StateId = int32_t;
  static constexpr StateId kDead = -1;
  static constexpr uint32_t kNoChar = UINT32_MAX;
  /// Most bytes of all texts, which are counted with one more for each.
  static constexpr size_t kMostBytes = size_t(1) << 30;

  /// `texts` are UTF-8, in any order and maybe several times. Those that are
  /// beyond kMostBytes are left out.
  static std::shared_ptr<const TextList>
  of(std::vector<std::string_view> texts);

  size_t size() const { return starts_.size(); }
  /// The texts, ascending.
  std::string_view operator[](size_t index) const;

  StateId start() const { return size() > 0 ? 0 : kDead; }
  /// The state after another code point; kDead: no text goes on like this. With
  /// `without`, texts whose bit is set are none of the list.
  StateId next(StateId from, uint32_t c, const Bits *without = nullptr) const;
  bool accepts(StateId state, const Bits *without = nullptr) const;
  /// The first code point from `c` on with which a text goes on, whatever
  /// next() leaves out; kNoChar: there is none.
  uint32_t firstFrom(StateId state, uint32_t c) const;
  /// The first text that begins as a state says, which it accepts if any.
  size_t indexOf(StateId state) const;
  /// All code points of the texts, ascending.
  std::vector<uint32_t> chars() const;

  bool operator==(const TextList &) const = default;
  uint64_t hash() const;

private:
  TextList() = default;
  /// The texts that begin as a state says, and how many bytes that is.
  struct Range {
    size_t first, last, depth;
  };
  Range rangeOf(StateId state) const;
  /// The first text of a range that does not go on with less than `rest`.
  size_t lowerBound(const Range &range, std::string_view rest) const;

  std::string bytes_; ///< The bytes of all texts, each followed by a zero.
  std::vector<uint32_t> starts_;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_TEXTLIST_H
