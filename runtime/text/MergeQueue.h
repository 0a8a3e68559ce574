//===- MergeQueue.h - Priority queues for pair merging ----------*- C++ -*-===//
//
// Priority queues ordered by (rank, position). Words of ordinary length use a
// binary heap. A long run of one character has millions of pairs with few
// ranks: for these there is a heap of the ranks in use and, for each rank, a
// list of positions in order of arrival, which is nearly always ascending.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_MERGEQUEUE_H
#define MOE_RUNTIME_TEXT_MERGEQUEUE_H

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace moert {

/// A pair of neighbours that may be merged: the rank of the merge and the
/// position of the left one.
struct MergeCandidate {
  uint32_t rank, position;
};

class HeapQueue {
public:
  void reset(size_t rankCount) { heap_.clear(); }
  bool empty() const { return heap_.empty(); }

  void push(MergeCandidate candidate) {
    heap_.push_back(static_cast<uint64_t>(candidate.rank) << 32 |
                    candidate.position);
    std::ranges::push_heap(heap_, std::greater{});
  }

  MergeCandidate pop() {
    std::ranges::pop_heap(heap_, std::greater{});
    uint64_t top = heap_.back();
    heap_.pop_back();
    return {static_cast<uint32_t>(top >> 32), static_cast<uint32_t>(top)};
  }

private:
  std::vector<uint64_t> heap_;
};

/// Amortised O(1) per candidate if the positions of a rank arrive in ascending
/// order, O(log n) otherwise.
class BucketQueue {
public:
  /// Empties the queue; ranks will be below `rankCount`.
  void reset(size_t rankCount) {
    buckets_.clear();
    bucketOfRank_.assign(rankCount, none);
    ranks_.clear();
  }
  bool empty() const { return ranks_.empty(); }

  void push(MergeCandidate candidate) {
    uint32_t &index = bucketOfRank_[candidate.rank];
    if (index == none) {
      index = static_cast<uint32_t>(buckets_.size());
      buckets_.emplace_back();
    }
    Bucket &bucket = buckets_[index];
    if (bucket.empty()) {
      ranks_.push_back(candidate.rank);
      std::ranges::push_heap(ranks_, std::greater{});
    }
    if (bucket.ascending.empty() ||
        bucket.ascending.back() <= candidate.position) {
      bucket.ascending.push_back(candidate.position);
    } else {
      bucket.late.push_back(candidate.position);
      std::ranges::push_heap(bucket.late, std::greater{});
    }
  }

  MergeCandidate pop() {
    uint32_t rank = ranks_.front();
    Bucket &bucket = buckets_[bucketOfRank_[rank]];
    uint32_t position = bucket.pop();
    if (bucket.empty()) {
      // Free the memory: merging a rank creates no new pairs of this rank.
      bucket = Bucket();
      std::ranges::pop_heap(ranks_, std::greater{});
      ranks_.pop_back();
    }
    return {rank, position};
  }

private:
  static constexpr uint32_t none = UINT32_MAX;

  struct Bucket {
    std::vector<uint32_t> ascending; ///< Elements from `next` on are queued.
    size_t next = 0;
    /// A min-heap of positions that arrived out of order.
    std::vector<uint32_t> late;

    bool empty() const { return next == ascending.size() && late.empty(); }
    uint32_t pop() {
      if (late.empty() ||
          (next < ascending.size() && ascending[next] <= late.front()))
        return ascending[next++];
      std::ranges::pop_heap(late, std::greater{});
      uint32_t position = late.back();
      late.pop_back();
      return position;
    }
  };

  std::vector<Bucket> buckets_;
  std::vector<uint32_t> bucketOfRank_;
  std::vector<uint32_t> ranks_; ///< A min-heap of the ranks in use.
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_MERGEQUEUE_H
