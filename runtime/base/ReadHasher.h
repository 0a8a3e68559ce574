//===- ReadHasher.h - Checksums of what is read anyway ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_READHASHER_H
#define MOE_RUNTIME_BASE_READHASHER_H

#include "runtime/base/ContentHash.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace moert {

/// Computes the checksums of weights, as WeightHasher does, from reads of any
/// size that follow each other in any order and may overlap. Of a block that is
/// read in pieces, those are copied that come before their turn: at most a
/// block for each thread that reads on from the middle of one.
class ReadHasher {
public:
  /// `weights` may overlap and be in any order.
  explicit ReadHasher(std::vector<Extent> weights);
  ~ReadHasher();

  /// Adds the file's bytes from `begin` on. Many threads may call it.
  void add(uint64_t begin, std::span<const uint8_t> bytes);

  /// Returns the 16 hex digits of weight `index`, or nothing if not all of its
  /// bytes were added. Not while others add.
  std::optional<std::string> checksum(size_t index) const;

private:
  struct Open;
  /// Blocks of which a part was added. Threads that add to different stripes do
  /// not wait for each other.
  struct Stripe {
    std::mutex mutex;
    /// Key: the number of the block.
    std::unordered_map<uint64_t, std::unique_ptr<Open>> open;
  };
  /// Block `number` of all weights' blocks, whose bytes are `block` of the
  /// file.
  void addToBlock(size_t number, Extent block, Extent range,
                  const uint8_t *bytes);

  std::vector<Extent> weights_;
  std::vector<size_t> byOffset_; ///< Indices of weights in order of offset.
  std::vector<uint64_t> reach_;  ///< Ends of the weights up to byOffset_[i].
  /// For each weight its first block, and at the end their number.
  std::vector<size_t> firstBlock_;
  std::vector<uint64_t> hashes_; ///< One for each block.
  std::vector<uint8_t> isDone_;  ///< One for each block.
  std::array<Stripe, 64> stripes_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_READHASHER_H
