//===- BpeModel.h - Merges the symbols of a word into tokens ----*- C++ -*-===//
//
// Three tokenizer models of GGUF files use one algorithm: merge the
// neighbouring pair of lowest rank, leftmost first, until no pair has a rank.
//
//   model   initial symbols   space is          rank of a pair
//   gpt2    bytes             in the alphabet   its index in the merges
//   gemma4  characters        U+2581            its index in the merges
//   llama   characters        U+2581            by the score of the token that
//                                               results from the merge
//
// The model works on text as users see it: at creation, gpt2's byte alphabet is
// decoded and U+2581 becomes a space. A symbol is a token, or a string that
// occurs in merges without being a token (symbols from vocabularySize() on).
// Sources: SentencePiece's bpe_model and the GGUF specification.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_BPEMODEL_H
#define MOE_RUNTIME_TEXT_BPEMODEL_H

#include "runtime/base/Deadline.h"
#include "runtime/base/Status.h"
#include "runtime/text/MergeQueue.h"
#include "runtime/text/TokenizerSpec.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

class BpeModel {
public:
  /// `spec.model` is gpt2, gemma4 or llama. Fails with InvalidFile for a merge
  /// that is not two texts separated by a space, a byte token that is not
  /// "<0xNN>", scores that are missing or NaN (llama), an empty vocabulary, or
  /// more symbols than fit an int32.
  static StatusOr<BpeModel> create(const TokenizerSpec &spec);

  /// Buffers of encodeWord, reused for all words.
  struct Scratch {
    /// One node per byte of the word; nodes inside a character are unused.
    struct Node {
      int32_t symbol; ///< `dead` after it was merged into its left neighbour.
      uint32_t previous, next;
    };
    std::vector<Node> nodes;
    HeapQueue shortQueue;
    BucketQueue longQueue;
  };

  /// Appends the tokens of `word`, which is UTF-8 if the alphabet is
  /// Characters, and any bytes otherwise. O(n log n) for any text and merges;
  /// O(n) for runs of one character, as they occur in practice. Fails once the
  /// deadline has passed, which is looked at every few thousand merges.
  Status encodeWord(std::string_view word, Scratch &scratch,
                    std::vector<int32_t> &out,
                    const Deadline &deadline = {}) const;

  /// Appends the token of one byte. If the byte has none, appends the unknown
  /// token, or else the tokens of U+FFFD; it is an error if there is neither.
  Status encodeByte(uint8_t byte, std::vector<int32_t> &out) const;

  /// Returns the token whose bytes are `bytes`, or -1. Searches tokens that
  /// text can consist of: no control, user-defined or unused tokens.
  int32_t find(std::string_view bytes) const;

  /// Returns the bytes of `symbol`; for a control token, its name.
  std::string_view bytes(int32_t symbol) const {
    return std::string_view(arena_).substr(
        offsets_[symbol], offsets_[symbol + 1] - offsets_[symbol]);
  }
  int32_t vocabularySize() const { return vocabularySize_; }
  /// Whether one unknown token may stand for many characters.
  bool joinsUnknown() const;
  /// Whether a merge may join a space to what is before it, other than spaces.
  /// If not, text can be cut there.
  bool mergesIntoBlanks() const { return mergesIntoBlanks_; }

private:
  struct Pair {
    uint64_t symbols; ///< left << 32 | right; noPair if the slot is empty.
    uint32_t rank;
    int32_t joined;
  };
  struct SymbolSlot {
    uint32_t hash;
    int32_t symbol; ///< -1 if the slot is empty.
  };

  Status addTokens(const TokenizerSpec &spec);
  Status addMerges(const std::vector<std::string> &merges);
  Status addPairsByScore(const TokenizerSpec &spec);
  void addPairsOf(int32_t token, uint32_t rank);
  void addPair(const Pair &pair);
  void addReplacement(const TokenizerSpec &spec);
  void appendReadable(std::string_view text, std::string &out) const;
  /// Returns the index of the slot that has `bytes`, or of the empty slot for
  /// them.
  size_t slotOf(std::string_view bytes, uint32_t hash) const;
  /// Returns the symbol of `bytes`, or -1.
  int32_t symbolOf(std::string_view bytes) const;
  int32_t intern(std::string_view bytes);
  /// Returns null for a pair that cannot be merged.
  const Pair *pairOf(int32_t left, int32_t right) const;
  void splitIntoSymbols(std::string_view word,
                        std::vector<Scratch::Node> &nodes) const;
  template <typename Queue>
  Status mergeAll(std::vector<Scratch::Node> &nodes, Queue &queue,
                  const Deadline &deadline) const;
  Status encodeUnmerged(std::string_view bytes,
                        std::vector<int32_t> &out) const;

  Alphabet alphabet_ = Alphabet::Bytes;
  std::string arena_; ///< The bytes of all symbols, one after another.
  /// Offset of each symbol in the arena, and the end.
  std::vector<uint64_t> offsets_;
  uint32_t rankCount_ = 0;
  // Open addressing with linear probing, at most half full.
  std::vector<SymbolSlot> symbolSlots_;
  std::vector<Pair> pairs_;
  size_t pairCount_ = 0;
  bool mergesIntoBlanks_ = false;
  /// The symbol of a byte at the start of merging, and the token of a byte that
  /// no other token covers. -1: none.
  std::array<int32_t, 256> byteSymbols_{}, byteTokens_{};
  /// Tokens in place of a byte that has no token.
  std::vector<int32_t> replacement_;
  int32_t vocabularySize_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_BPEMODEL_H
