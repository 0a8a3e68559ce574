//===- CharSet.h - Sets of code points --------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_CHARSET_H
#define MOE_RUNTIME_CONSTRAIN_CHARSET_H

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// A set of Unicode scalar values: code points up to U+10FFFF that are no
/// surrogates.
class CharSet {
public:
  struct Range {
    uint32_t first, last; ///< Both ends are included.
    bool operator==(const Range &) const = default;
  };

  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges);

  static CharSet all() { return {{0, kMaxCodePoint}}; }
  static CharSet only(uint32_t c) { return {{c, c}}; }

  void add(Range range);
  void add(const CharSet &other);
  CharSet complement() const;
  CharSet without(const CharSet &other) const;
  CharSet intersection(const CharSet &other) const;

  bool isEmpty() const { return ranges_.empty(); }
  bool operator==(const CharSet &) const = default;
  bool contains(uint32_t c) const;
  /// Ascending, disjoint and not adjacent.
  const std::vector<Range> &ranges() const { return ranges_; }

  static constexpr uint32_t kMaxCodePoint = 0x10FFFF;

private:
  void normalise();
  std::vector<Range> ranges_;
};

/// A range of each of the bytes of UTF-8 sequences of one length.
struct ByteRange {
  uint8_t first, last; ///< Both ends are included.
};
using Utf8Sequence = std::vector<ByteRange>;

/// Returns sequences of byte ranges that match exactly the UTF-8 encodings of
/// `set`: a range is split where encodings change their length or a leading
/// byte does not have all continuations.
std::vector<Utf8Sequence> utf8Sequences(const CharSet &set);

/// Returns the UTF-8 encoding of a scalar value.
std::string encodeUtf8(uint32_t c);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_CHARSET_H
