#include "runtime/base/ReadHasher.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <numeric>
#include <xxhash.h>

namespace moert {

/// A block of which the bytes up to `at` were hashed.
struct ReadHasher::Open {
  explicit Open(uint64_t begin)
      : state(XXH3_createState(), XXH3_freeState), at(begin) {
    if (!state)
      throw std::bad_alloc(); // Like a failed new, which forEachPiece()
                              // reports.
    XXH3_64bits_reset(state.get());
  }

  /// Hashes the part of the range that comes next, if any does.
  void take(uint64_t begin, std::span<const uint8_t> bytes) {
    uint64_t end = begin + bytes.size();
    if (begin > at || end <= at)
      return;
    bytes = bytes.subspan(size_t(at - begin));
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
    at = end;
  }

  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t *)> state;
  uint64_t at;
  std::map<uint64_t, std::vector<uint8_t>> waiting; ///< Key: the offset.
};

ReadHasher::ReadHasher(std::vector<Extent> weights)
    : weights_(std::move(weights)), byOffset_(weights_.size()) {
  std::iota(byOffset_.begin(), byOffset_.end(), size_t(0));
  std::ranges::stable_sort(byOffset_, {},
                           [&](size_t i) { return weights_[i].offset; });
  uint64_t reach = 0;
  for (size_t index : byOffset_)
    reach_.push_back(reach = std::max(reach, weights_[index].end()));
  size_t blocks = 0;
  for (const Extent &weight : weights_) {
    firstBlock_.push_back(blocks);
    if (weight.bytes > 0)
      blocks += size_t((weight.end() - 1) / kHashBlock -
                       weight.offset / kHashBlock + 1);
  }
  firstBlock_.push_back(blocks);
  hashes_.resize(blocks);
  isDone_.resize(blocks);
}

ReadHasher::~ReadHasher() = default;

void ReadHasher::add(uint64_t begin, std::span<const uint8_t> bytes) {
  const uint64_t end = begin + bytes.size();
  auto first = size_t(std::ranges::upper_bound(reach_, begin) - reach_.begin());
  for (size_t i = first; i < byOffset_.size(); ++i) {
    const size_t index = byOffset_[i];
    const Extent &weight = weights_[index];
    if (weight.offset >= end)
      return;
    const uint64_t last = std::min(weight.end(), end);
    uint64_t next;
    for (uint64_t at = std::max(weight.offset, begin); at < last; at = next) {
      const uint64_t block = at / kHashBlock;
      next = std::min(last, (block + 1) * kHashBlock);
      const uint64_t from = std::max(weight.offset, block * kHashBlock);
      const uint64_t to = std::min(weight.end(), (block + 1) * kHashBlock);
      addToBlock(
          firstBlock_[index] + size_t(block - weight.offset / kHashBlock),
          {from, to - from}, {at, next - at}, bytes.data() + (at - begin));
    }
  }
}

void ReadHasher::addToBlock(size_t number, Extent block, Extent range,
                            const uint8_t *bytes) {
  Stripe &stripe = stripes_[number % stripes_.size()];
  std::unique_lock lock(stripe.mutex);
  if (isDone_[number])
    return;
  if (range == block) {
    lock.unlock();
    // Another thread that adds the whole block writes the same.
    const uint64_t hash = XXH3_64bits(bytes, range.bytes);
    lock.lock();
    hashes_[number] = hash;
    isDone_[number] = 1;
    stripe.open.erase(number);
    return;
  }
  std::unique_ptr<Open> &open = stripe.open[number];
  if (!open)
    open = std::make_unique<Open>(block.offset);
  if (range.offset > open->at) {
    std::vector<uint8_t> &kept = open->waiting[range.offset];
    if (kept.size() < range.bytes)
      kept.assign(bytes, bytes + range.bytes);
    return;
  }
  open->take(range.offset, {bytes, range.bytes});
  for (auto next = open->waiting.begin();
       next != open->waiting.end() && next->first <= open->at;
       next = open->waiting.erase(next))
    open->take(next->first, next->second);
  if (open->at < block.end())
    return;
  hashes_[number] = XXH3_64bits_digest(open->state.get());
  isDone_[number] = 1;
  stripe.open.erase(number);
}

std::optional<std::string> ReadHasher::checksum(size_t index) const {
  const size_t first = firstBlock_[index], end = firstBlock_[index + 1];
  for (size_t block = first; block < end; ++block)
    if (!isDone_[block])
      return std::nullopt;
  // Numbers are little-endian on every CPU that we support.
  return fmt::format("{:016x}", XXH3_64bits(hashes_.data() + first,
                                            (end - first) * sizeof(uint64_t)));
}

} // namespace moert
