//===- ContentHash.h - Which file is this? ----------------------*- C++ -*-===//
//
// Hashes that find swapped and damaged files; they are no defence against
// forgery. runtime/schema/plan.fbs states what a plan records of them.
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

/// XXH3-128 of `bytes` in its canonical (big-endian) form, 32 hex digits.
std::string contentHash(std::span<const uint8_t> bytes);

/// The same of a file's first bytes, at most all of them. Fails with Io.
StatusOr<std::string> hashHeader(const InputFile &file, uint64_t bytes);

/// XXH3-64 of `parts`, one behind another.
uint64_t hash64(std::initializer_list<std::span<const uint8_t>> parts);

/// Bytes of a file.
struct Extent {
  uint64_t offset, bytes;

  uint64_t end() const { return offset + bytes; }
  bool operator==(const Extent &) const = default;
};

/// A weight's bytes are hashed in blocks that end at multiples of this in its
/// file.
inline constexpr uint64_t kHashBlock = uint64_t(1) << 20;
/// A sample is what a weight has of one page of its file.
inline constexpr uint64_t kSampleBytes = 4096;
/// Weights of a file of which there is a sample.
inline constexpr size_t kMaxSamples = 1024;

/// Where a file's samples are: one for each of `weights`, or for kMaxSamples of
/// them, evenly spread. None is empty.
std::vector<Extent> samplesOf(std::span<const Extent> weights);

/// Reads a file's samples and returns their hash. Fails with Io. What was not
/// in the page cache before is not there after it, so that mapping the file
/// afterwards gets large pages.
StatusOr<std::string> hashSamples(const InputFile &file,
                                  std::span<const Extent> weights);

/// Takes the bytes of a file in any order, from many threads, and returns the
/// checksum of every weight and the hash of the samples.
class WeightHasher {
public:
  /// `weights` may overlap, and come in any order.
  explicit WeightHasher(std::vector<Extent> weights);

  /// The file's bytes from `begin` on. They end at a multiple of kHashBlock or
  /// where no weight continues, and begin so.
  void add(uint64_t begin, std::span<const uint8_t> bytes);
  /// The same for zeros; costs no time.
  void addZeros(Extent zeros);

  /// When all was added: 16 hex digits for each weight.
  std::vector<std::string> checksums() const;
  /// When all was added.
  std::string sampleHash() const;

  std::span<const Extent> weights() const { return weights_; }

private:
  void add(Extent range, const uint8_t *bytes);

  std::vector<Extent> weights_, samples_;
  std::vector<std::vector<uint64_t>> blocks_; ///< Hashes, by weight.
  std::vector<uint64_t> sampleHashes_;
  /// Indices by ascending offset; `reach_[i]` is how far weights up to
  /// `byOffset_[i]` go.
  std::vector<size_t> byOffset_, samplesByOffset_;
  std::vector<uint64_t> reach_;
};

/// What hashWeights() reads of a file.
uint64_t bytesToHash(std::span<const Extent> weights);

/// Gives `hasher` all bytes of its weights, read from `file` by all cores.
/// Holes cost no time. Fails with Io or Cancelled.
Status hashWeights(const InputFile &file, WeightHasher &hasher,
                   const PiecesOptions &options);

} // namespace moert

#endif // MOE_RUNTIME_BASE_CONTENTHASH_H
