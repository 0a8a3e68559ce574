//===- BpeModel.h - Byte-pair encoding of one word --------------*- C++ -*-===//
//
// Works on bytes: the byte alphabet in which files write tokens is decoded
// once, at creation. A symbol is a token, or a byte string that merges pass
// through without its being a token (symbols from vocabularySize() on).
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
  /// Fails with InvalidFile for a merge that is not two texts with a space
  /// between, a byte token that is not "<0xNN>", an empty vocabulary, or more
  /// symbols than fit an int32.
  static StatusOr<BpeModel> create(const TokenizerSpec &spec);

  /// Buffers of encodeWord, kept from word to word.
  struct Scratch {
    struct Node {
      int32_t symbol; ///< dead once merged into its left neighbour.
      uint32_t previous, next;
    };
    std::vector<Node> nodes;
    HeapQueue shortQueue;
    BucketQueue longQueue;
  };

  /// Appends the tokens of `word`. Merges the adjacent pair of lowest rank,
  /// leftmost first, until no pair has a rank: O(n log n) for any text and any
  /// merges, O(n) for the runs of one character that occur in practice.
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
  struct Merge {
    int32_t left, right, result;
  };
  struct PairSlot {
    uint64_t pair; ///< left << 32 | right; noPair where empty.
    uint32_t rank;
  };
  struct SymbolSlot {
    uint32_t hash;
    int32_t symbol; ///< -1 where empty.
  };

  Status addTokens(const TokenizerSpec &spec);
  Status addMerges(const std::vector<std::string> &merges);
  void addReplacement(const TokenizerSpec &spec);
  /// Index of the slot that holds `bytes`, or of the empty one it belongs in.
  size_t slotOf(std::string_view bytes, uint32_t hash) const;
  int32_t intern(std::string_view bytes);
  uint32_t rankOf(int32_t left, int32_t right) const;
  template <typename Queue>
  void mergeAll(std::vector<Scratch::Node> &nodes, Queue &queue) const;

  std::string arena_; ///< The bytes of all symbols, one after another.
  std::vector<uint64_t> offsets_; ///< Of each symbol in the arena, and the end.
  std::vector<Merge> merges_;     ///< By rank.
  // Open addressing with linear probing, at most half full.
  std::vector<SymbolSlot> symbolSlots_;
  std::vector<PairSlot> pairSlots_;
  std::array<int32_t, 256> byteSymbols_{};
  std::vector<int32_t> replacement_; ///< For a byte without a token.
  int32_t vocabularySize_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_BPEMODEL_H
