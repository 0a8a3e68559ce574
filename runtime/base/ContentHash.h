//===- ContentHash.h - Hashes that identify files ---------------*- C++ -*-===//
//
// These hashes detect swapped and damaged files; they are no protection against
// forgery. runtime/schema/plan.fbs defines which hashes a plan records.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_CONTENTHASH_H
#define MOE_RUNTIME_BASE_CONTENTHASH_H

#include "runtime/base/InputFile.h"
#include "runtime/base/ParallelPieces.h"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// Returns the XXH3-128 of `bytes` in canonical (big-endian) form, as 32 hex
/// digits.
std::string contentHash(std::span<const uint8_t> bytes);

/// Returns the contentHash() of a file's first `bytes` bytes, at most its size.
/// Fails with Io.
StatusOr<std::string> hashHeader(const InputFile &file, uint64_t bytes);

/// Returns the XXH3-64 of the concatenated `parts`.
uint64_t hash64(std::initializer_list<std::span<const uint8_t>> parts);

/// A range of bytes in a file.
struct Extent {
  uint64_t offset, bytes;

  uint64_t end() const { return offset + bytes; }
  bool operator==(const Extent &) const = default;
};

/// Block size of weight hashes: blocks end at multiples of this in the file.
inline constexpr uint64_t kHashBlock = uint64_t(1) << 20;
/// Page size of samples: a sample is the part of a weight on one page of its
/// file.
inline constexpr uint64_t kSampleBytes = 4096;
/// Maximum number of weights in a file that have a sample.
inline constexpr size_t kMaxSamples = 1024;

/// Returns the positions of a file's samples: one for each of `weights`, or for
/// kMaxSamples of them, evenly spread. None is empty.
std::vector<Extent> samplesOf(std::span<const Extent> weights);

/// Reads a file's samples and returns their hash. Fails with Io. Pages that
/// were not in the page cache are dropped from it again, so that mapping the
/// file afterwards can use large pages.
StatusOr<std::string> hashSamples(const InputFile &file,
                                  std::span<const Extent> weights);

/// Computes the checksum of every weight in a file and the hash of the samples
/// from the file's bytes, which may be added in any order and by many threads.
class WeightHasher {
public:
  /// `weights` may overlap and be in any order.
  explicit WeightHasher(std::vector<Extent> weights);

  /// Adds the file's bytes from `begin` on. They must begin and end at a
  /// multiple of kHashBlock or where no weight continues.
  void add(uint64_t begin, std::span<const uint8_t> bytes);
  /// Adds zeros without spending time on them.
  void addZeros(Extent zeros);

  /// Returns 16 hex digits for each weight, once everything was added.
  std::vector<std::string> checksums() const;
  /// Returns the hash of the samples, once everything was added.
  std::string sampleHash() const;

  std::span<const Extent> weights() const { return weights_; }

private:
  void add(Extent range, const uint8_t *bytes);

  std::vector<Extent> weights_, samples_;
  /// Hashes of the blocks of each weight.
  std::vector<std::vector<uint64_t>> blocks_;
  std::vector<uint64_t> sampleHashes_;
  /// Indices in order of offset. `reach_[i]` is the end of the weights up to
  /// `byOffset_[i]`.
  std::vector<size_t> byOffset_, samplesByOffset_;
  std::vector<uint64_t> reach_;
};

/// Returns the number of bytes that hashWeights() reads of a file.
uint64_t bytesToHash(std::span<const Extent> weights);

/// Adds all bytes of the hasher's weights, read from `file` by all cores. Holes
/// in the file cost no time. Fails with Io or Cancelled.
Status hashWeights(const InputFile &file, WeightHasher &hasher,
                   const PiecesOptions &options);

} // namespace moert

#endif // MOE_RUNTIME_BASE_CONTENTHASH_H
