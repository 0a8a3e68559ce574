//===- SpecialTokens.h - Tokens matched before words ------------*- C++ -*-===//

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

/// Finds control and user-defined tokens in text, in time that grows with the
/// text alone, however long and alike the tokens are: an Aho-Corasick automaton
/// that reads from the end, so that where it stands is what begins there.
class SpecialTokens {
public:
  struct Entry {
    std::string_view text;
    int32_t id;
    bool isControl; ///< Found only where the caller asks for such.
  };
  /// The first of several entries with one text counts; an empty text is
  /// ignored. Fails where the texts are too long in all to be looked for.
  static StatusOr<SpecialTokens> create(std::span<const Entry> entries);

  struct Match {
    uint32_t begin;
    uint32_t length;
    int32_t id;
  };
  /// Of each place in `text` at which tokens begin the longest of these, in the
  /// order of the text; they may overlap.
  std::vector<Match> find(std::string_view text, bool withControl) const;

private:
  struct Token {
    uint32_t length;
    int32_t id;
  };
  /// What has been read, as far as it ends some token.
  struct Node {
    uint32_t shorter = 0; ///< The longest beginning of it that is a node too.
    int32_t token = none; ///< The longest that begins where it does.
    int32_t plain = none; ///< Likewise of those that are not control tokens.
  };
  static constexpr int32_t none = -1;

  static uint64_t edge(uint32_t node, char byte) {
    return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
  }
  /// Where `byte` before what has been read leads.
  uint32_t next(uint32_t node, char byte) const;

  std::unordered_map<uint64_t, uint32_t> children_; ///< By edge().
  std::vector<Node> nodes_{1};
  std::vector<Token> tokens_;
  std::array<bool, 256> isLastByte_{};
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_SPECIALTOKENS_H
