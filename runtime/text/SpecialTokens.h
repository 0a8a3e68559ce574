//===- SpecialTokens.h - Finds special tokens in text -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_SPECIALTOKENS_H
#define MOE_RUNTIME_TEXT_SPECIALTOKENS_H

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace moert {

/// Finds control and user-defined tokens in text. The time depends only on the
/// length of the text, not on the number, length or similarity of the tokens:
/// an Aho-Corasick automaton reads the text from its end, so that its state at
/// a position tells which tokens begin there.
class SpecialTokens {
public:
  struct Entry {
    std::string_view text;
    int32_t id;
    bool isControl; ///< Whether it is found only on request (`withControl`).
  };
  /// The first of several entries with equal text is used; an empty text is
  /// ignored. Fails if the total length of the texts is too large.
  static StatusOr<SpecialTokens> create(std::span<const Entry> entries);

  struct Match {
    uint32_t begin;
    uint32_t length;
    int32_t id;
  };
  /// Returns the longest token at each position where tokens begin, in the
  /// order of the text; they may overlap.
  std::vector<Match> find(std::string_view text, bool withControl) const;

private:
  struct Token {
    uint32_t length;
    int32_t id;
  };
  /// A state: the bytes read so far that form the end of some token.
  struct Node {
    uint32_t shorter = 0; ///< Longest proper prefix that is also a state.
    int32_t token = none; ///< The longest token that begins at this position.
    int32_t plain = none; ///< The longest such token that is no control token.
  };
  static constexpr int32_t none = -1;

  static uint64_t edge(uint32_t node, char byte) {
    return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
  }
  /// Returns the state after reading `byte`, which precedes the bytes read so
  /// far.
  uint32_t next(uint32_t node, char byte) const;

  std::unordered_map<uint64_t, uint32_t> children_; ///< Key: edge().
  std::vector<Node> nodes_{1};
  std::vector<Token> tokens_;
  std::array<bool, 256> isLastByte_{};
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_SPECIALTOKENS_H
