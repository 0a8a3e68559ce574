//===- SpecialTokens.h - Tokens matched before words ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_SPECIALTOKENS_H
#define MOE_RUNTIME_TEXT_SPECIALTOKENS_H

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace moert {

/// Finds control and user-defined tokens in text: the leftmost, and of those
/// that start there the longest. A trie over their bytes; text in which no
/// token starts costs one table look-up a byte.
class SpecialTokens {
public:
  /// `isControl` tokens are found only where the caller asks for them. The
  /// first of several tokens with one text counts; an empty text is ignored.
  void add(std::string_view text, int32_t id, bool isControl);

  struct Match {
    size_t begin;
    size_t end; ///< Equal to begin, the size of the text, where none is found.
    int32_t id;
  };
  /// The first match in `text` at or after `from`.
  Match findNext(std::string_view text, size_t from, bool withControl) const;

private:
  struct Token {
    int32_t id;
    bool isControl;
  };

  static uint64_t edge(uint32_t node, char byte) {
    return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
  }

  std::unordered_map<uint64_t, uint32_t> children_; ///< By edge().
  std::unordered_map<uint32_t, Token> ends_; ///< By the node they end at.
  std::array<bool, 256> isFirstByte_{};
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_SPECIALTOKENS_H
