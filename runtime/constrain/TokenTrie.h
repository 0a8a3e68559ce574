//===- TokenTrie.h - A vocabulary in the order of its bytes -----*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_TOKENTRIE_H
#define MOE_RUNTIME_CONSTRAIN_TOKENTRIE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

class Tokenizer;

/// Tokens sorted by their bytes, each with the length of the prefix that it
/// shares with the one before: the nodes of a trie in depth-first order.
/// Immutable; threads may share it.
class TokenTrie {
public:
  struct Entry {
    int32_t id;
    uint32_t offset, length; ///< Range of the entry's bytes in the buffer.
    uint32_t shared; ///< Leading bytes equal to those of the last entry.
    /// The next entry that shares fewer bytes with the one before it than this
    /// one does; the number of entries if there is none.
    uint32_t nextApart;
  };

  /// `ends` are the tokens that end a text. Tokens without bytes can never be
  /// chosen.
  TokenTrie(const std::vector<std::string_view> &tokens,
            std::vector<int32_t> ends);
  /// Control tokens are not text: of a grammar of texts only those that end
  /// generation can be chosen. A grammar that means others has their
  /// controlBytes() (StreamDecoder.h).
  explicit TokenTrie(const Tokenizer &tokenizer);

  const std::vector<Entry> &entries() const { return entries_; }
  std::string_view bytes(const Entry &entry) const {
    return std::string_view(buffer_).substr(entry.offset, entry.length);
  }
  /// The bytes of a token; empty if it is not text.
  std::string_view bytesOf(int32_t id) const;
  bool isEnd(int32_t id) const;
  const std::vector<int32_t> &ends() const { return ends_; }
  int32_t vocabularySize() const { return int32_t(entryOf_.size()); }

private:
  void build(const std::vector<std::string_view> &tokens);

  std::string buffer_;
  std::vector<Entry> entries_;
  /// Entry of each token id; -1: the token is not text.
  std::vector<int32_t> entryOf_;
  std::vector<int32_t> ends_; ///< Token ids in ascending order.
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_TOKENTRIE_H
