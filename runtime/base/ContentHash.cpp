#include "runtime/base/ContentHash.h"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <new>
#include <numeric>
#include <xxhash.h>

namespace moert {

namespace {
/// Bytes read at a time, a multiple of kHashBlock.
constexpr uint64_t kReadBytes = 4 * kHashBlock;

using HashState =
    std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t *)>;

HashState newHashState() {
  HashState state(XXH3_createState(), XXH3_freeState);
  if (!state)
    throw std::bad_alloc();
  return state;
}

std::string canonical(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

/// Returns the XXH3-64 of `bytes` bytes at `data`, or of zeros if `data` is
/// null.
uint64_t blockHash(const uint8_t *data, uint64_t bytes) {
  if (data)
    return XXH3_64bits(data, bytes);
  static const std::vector<uint8_t> zeros(kHashBlock);
  static const uint64_t ofBlock = XXH3_64bits(zeros.data(), kHashBlock);
  return bytes == kHashBlock ? ofBlock : XXH3_64bits(zeros.data(), bytes);
}

/// Returns the bytes of the numbers, which are little-endian on every CPU that
/// we support.
std::span<const uint8_t> bytesOf(std::span<const uint64_t> numbers) {
  return {reinterpret_cast<const uint8_t *>(numbers.data()),
          numbers.size_bytes()};
}

std::vector<size_t> sortedByOffset(std::span<const Extent> extents) {
  std::vector<size_t> order(extents.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, {},
                           [&](size_t i) { return extents[i].offset; });
  return order;
}

/// Returns the parts of a file that weights occupy, cut at multiples of
/// kReadBytes, ascending and disjoint.
std::vector<Extent> piecesOf(std::span<const Extent> weights) {
  std::vector<Extent> pieces;
  uint64_t end = 0; // End of the ranges that were seen.
  for (size_t index : sortedByOffset(weights)) {
    uint64_t begin = std::max(end, weights[index].offset);
    for (; begin < weights[index].end(); begin = end) {
      end = std::min(weights[index].end(),
                     begin / kReadBytes * kReadBytes + kReadBytes);
      bool continues = !pieces.empty() && pieces.back().end() == begin &&
                       begin % kReadBytes != 0;
      if (continues)
        pieces.back().bytes += end - begin;
      else
        pieces.push_back({begin, end - begin});
    }
  }
  return pieces;
}

uint64_t sumOf(std::span<const Extent> pieces) {
  uint64_t sum = 0;
  for (const Extent &piece : pieces)
    sum += piece.bytes;
  return sum;
}
} // namespace

std::string contentHash(std::span<const uint8_t> bytes) {
  return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

StatusOr<std::string> hashHeader(const InputFile &file, uint64_t bytes) {
  HashState state = newHashState();
  XXH3_128bits_reset(state.get());
  std::vector<uint8_t> buffer(std::min(bytes, kHashBlock));
  for (uint64_t at = 0; at < bytes;) {
    uint64_t part = std::min(bytes - at, kHashBlock);
    MOE_RETURN_IF_ERROR(file.readAt(at, buffer.data(), part));
    XXH3_128bits_update(state.get(), buffer.data(), part);
    at += part;
  }
  return canonical(XXH3_128bits_digest(state.get()));
}

uint64_t hash64(std::initializer_list<std::span<const uint8_t>> parts) {
  HashState state = newHashState();
  XXH3_64bits_reset(state.get());
  for (std::span<const uint8_t> part : parts)
    XXH3_64bits_update(state.get(), part.data(), part.size());
  return XXH3_64bits_digest(state.get());
}

std::vector<Extent> samplesOf(std::span<const Extent> weights) {
  std::vector<Extent> samples;
  size_t count = std::min(weights.size(), kMaxSamples);
  for (size_t i = 0; i < count; ++i) {
    size_t index = i * weights.size() / count;
    const Extent &weight = weights[index];
    if (weight.bytes == 0)
      continue;
    // The page varies from weight to weight, so that not all samples are first
    // pages.
    uint64_t first = weight.offset / kSampleBytes;
    uint64_t pages = (weight.end() - 1) / kSampleBytes - first + 1;
    uint64_t page =
        first + uint64_t((uint32_t(index) + 1) * 2654435769u) % pages;
    uint64_t begin = std::max(page * kSampleBytes, weight.offset);
    uint64_t end = std::min((page + 1) * kSampleBytes, weight.end());
    samples.push_back({begin, end - begin});
  }
  return samples;
}

StatusOr<std::string> hashSamples(const InputFile &file,
                                  std::span<const Extent> weights) {
  std::vector<Extent> samples = samplesOf(weights);
  // Requests all samples before waiting for the first.
  for (const Extent &sample : samples)
    (void)::posix_fadvise(file.descriptor(), off_t(sample.offset),
                          off_t(sample.bytes), POSIX_FADV_WILLNEED);
  std::vector<uint64_t> hashes;
  for (const Extent &sample : samples) {
    uint8_t bytes[kSampleBytes];
    MOE_RETURN_IF_ERROR(file.readAt(sample.offset, bytes, sample.bytes));
    hashes.push_back(blockHash(bytes, sample.bytes));
  }
  // If a small page stayed in the page cache, the 2 MiB around it could not
  // become a large page when mapped: with many samples, this affects a tenth of
  // a model. Existing large pages are not split by this.
  for (const Extent &sample : samples)
    (void)::posix_fadvise(file.descriptor(),
                          off_t(sample.offset / kSampleBytes * kSampleBytes),
                          off_t(kSampleBytes), POSIX_FADV_DONTNEED);
  return contentHash(bytesOf(hashes));
}

WeightHasher::WeightHasher(std::vector<Extent> weights)
    : weights_(std::move(weights)), samples_(samplesOf(weights_)),
      blocks_(weights_.size()), sampleHashes_(samples_.size()),
      byOffset_(sortedByOffset(weights_)),
      samplesByOffset_(sortedByOffset(samples_)) {
  uint64_t reach = 0;
  for (size_t index : byOffset_) {
    const Extent &weight = weights_[index];
    if (weight.bytes > 0)
      blocks_[index].resize((weight.end() - 1) / kHashBlock -
                            weight.offset / kHashBlock + 1);
    reach_.push_back(reach = std::max(reach, weight.end()));
  }
}

void WeightHasher::add(uint64_t begin, std::span<const uint8_t> bytes) {
  add({begin, bytes.size()}, bytes.data());
}

void WeightHasher::addZeros(Extent zeros) { add(zeros, nullptr); }

void WeightHasher::add(Extent range, const uint8_t *bytes) {
  auto hash = [&](uint64_t begin, uint64_t end) {
    return blockHash(bytes ? bytes + (begin - range.offset) : nullptr,
                     end - begin);
  };
  size_t first =
      size_t(std::ranges::upper_bound(reach_, range.offset) - reach_.begin());
  for (size_t i = first; i < byOffset_.size(); ++i) {
    const Extent &weight = weights_[byOffset_[i]];
    if (weight.offset >= range.end())
      break;
    uint64_t end = std::min(weight.end(), range.end());
    uint64_t next;
    for (uint64_t at = std::max(weight.offset, range.offset); at < end;
         at = next) {
      next = std::min(end, at / kHashBlock * kHashBlock + kHashBlock);
      blocks_[byOffset_[i]][at / kHashBlock - weight.offset / kHashBlock] =
          hash(at, next);
    }
  }
  // A sample lies within a page, so no block boundary cuts it.
  auto sample = std::ranges::lower_bound(
      samplesByOffset_, range.offset, {},
      [&](size_t index) { return samples_[index].offset; });
  for (; sample != samplesByOffset_.end() &&
         samples_[*sample].end() <= range.end();
       ++sample)
    sampleHashes_[*sample] =
        hash(samples_[*sample].offset, samples_[*sample].end());
}

std::vector<std::string> WeightHasher::checksums() const {
  std::vector<std::string> result;
  for (const std::vector<uint64_t> &blocks : blocks_) {
    std::span<const uint8_t> bytes = bytesOf(blocks);
    result.push_back(
        fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size())));
  }
  return result;
}

std::string WeightHasher::sampleHash() const {
  return contentHash(bytesOf(sampleHashes_));
}

uint64_t bytesToHash(std::span<const Extent> weights) {
  return sumOf(piecesOf(weights));
}

Status hashWeights(const InputFile &file, WeightHasher &hasher,
                   const PiecesOptions &options) {
  std::vector<Extent> pieces = piecesOf(hasher.weights());
  (void)::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  PiecesOptions reading = options;
  reading.waits = true;
  return forEachPiece(
      pieces.size(), sumOf(pieces), reading, [&]() -> PieceTask {
        auto buffer = std::make_shared<std::vector<uint8_t>>();
        return [&, buffer](size_t index) -> StatusOr<uint64_t> {
          const Extent &piece = pieces[index];
          if (file.isHole(piece.offset, piece.bytes)) {
            hasher.addZeros(piece);
            return piece.bytes;
          }
          buffer->resize(kReadBytes);
          MOE_RETURN_IF_ERROR(
              file.readAt(piece.offset, buffer->data(), piece.bytes));
          hasher.add(piece.offset, std::span(*buffer).first(piece.bytes));
          return piece.bytes;
        };
      });
}

} // namespace moert
