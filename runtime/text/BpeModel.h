//===- BpeModel.h - Pair merging inside one word ----------------*- C++ -*-===//
//
// Three models of GGUF files are one algorithm: join the neighbouring pair of
// lowest rank, leftmost first, until no pair has a rank.
//
//   model   symbols at first  space is          rank of a pair
//   gpt2    bytes             in the alphabet   its place in the merges
//   gemma4  characters        U+2581            its place in the merges
//   llama   characters        U+2581            by the score of the token that
//                                               it is when joined
//
// Works on text as users see it: the byte alphabet of gpt2 is decoded and
// U+2581 made a space once, at creation. A symbol is a token, or a string that
// merges pass through without its being a token (symbols from vocabularySize()
// on). Facts: SentencePiece's bpe_model, the GGUF specification.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_BPEMODEL_H
#define MOE_RUNTIME_TEXT_BPEMODEL_H

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
  /// that is not two texts with a space between, a byte token that is not
  /// "<0xNN>", scores that are missing or no numbers (llama), an empty
  /// vocabulary, or more symbols than fit an int32.
  static StatusOr<BpeModel> create(const TokenizerSpec &spec);

  /// Buffers of encodeWord, kept from word to word.
  struct Scratch {
    /// One per byte of the word; those inside a character are never reached.
    struct Node {
      int32_t symbol; ///< dead once merged into its left neighbour.
      uint32_t previous, next;
    };
    std::vector<Node> nodes;
    HeapQueue shortQueue;
    BucketQueue longQueue;
  };

  /// Appends the tokens of `word`: UTF-8 where the alphabet is Characters, any
  /// bytes otherwise. O(n log n) for any text and any merges, O(n) for the runs
  /// of one character that occur in practice.
  Status encodeWord(std::string_view word, Scratch &scratch,
                    std::vector<int32_t> &out) const;

  /// Appends the token of one byte. A byte without a token becomes the unknown
  /// token, or else the tokens of U+FFFD; an error where there is neither.
  Status encodeByte(uint8_t byte, std::vector<int32_t> &out) const;

  /// The token whose bytes are `bytes`, or -1. Finds what text can consist of:
  /// neither control nor user-defined nor unused tokens.
  int32_t find(std::string_view bytes) const;

  /// What `symbol` stands for; for a control token, its name.
  std::string_view bytes(int32_t symbol) const {
    return std::string_view(arena_).substr(
        offsets_[symbol], offsets_[symbol + 1] - offsets_[symbol]);
  }
  int32_t vocabularySize() const { return vocabularySize_; }

private:
  struct Pair {
    uint64_t symbols; ///< left << 32 | right; noPair where empty.
    uint32_t rank;
    int32_t joined;
  };
  struct SymbolSlot {
    uint32_t hash;
    int32_t symbol; ///< -1 where empty.
  };

  Status addTokens(const TokenizerSpec &spec);
  Status addMerges(const std::vector<std::string> &merges);
  Status addPairsByScore(const TokenizerSpec &spec);
  void addPairsOf(int32_t token, uint32_t rank);
  void addPair(const Pair &pair);
  void addReplacement(const TokenizerSpec &spec);
  void appendReadable(std::string_view text, std::string &out) const;
  /// Index of the slot that holds `bytes`, or of the empty one it belongs in.
  size_t slotOf(std::string_view bytes, uint32_t hash) const;
  /// The symbol of `bytes`, or -1.
  int32_t symbolOf(std::string_view bytes) const;
  int32_t intern(std::string_view bytes);
  /// Null for a pair that does not join.
  const Pair *pairOf(int32_t left, int32_t right) const;
  void splitIntoSymbols(std::string_view word,
                        std::vector<Scratch::Node> &nodes) const;
  template <typename Queue>
  void mergeAll(std::vector<Scratch::Node> &nodes, Queue &queue) const;
  Status encodeUnmerged(std::string_view bytes,
                        std::vector<int32_t> &out) const;

  Alphabet alphabet_ = Alphabet::Bytes;
  std::string arena_; ///< The bytes of all symbols, one after another.
  std::vector<uint64_t> offsets_; ///< Of each symbol in the arena, and the end.
  uint32_t rankCount_ = 0;
  // Open addressing with linear probing, at most half full.
  std::vector<SymbolSlot> symbolSlots_;
  std::vector<Pair> pairs_;
  size_t pairCount_ = 0;
  /// What a byte is at first: as a word's beginning, and where nothing else
  /// stands for it. -1: nothing.
  std::array<int32_t, 256> byteSymbols_{}, byteTokens_{};
  std::vector<int32_t> replacement_; ///< For a byte without a token.
  int32_t vocabularySize_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_BPEMODEL_H
