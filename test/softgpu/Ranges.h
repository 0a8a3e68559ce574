//===- Ranges.h - Sets of addresses -----------------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_RANGES_H
#define MOE_TEST_SOFTGPU_RANGES_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace softgpu {

struct Range {
  uint64_t begin = 0, end = 0;
  bool operator==(const Range &) const = default;
};

/// A set of addresses that are added in any order. Appending directly after the
/// range added last is cheap.
class Ranges {
public:
  void add(uint64_t begin, uint64_t end) {
    if (!ranges_.empty() && begin >= ranges_.back().begin &&
        begin <= ranges_.back().end) {
      ranges_.back().end = std::max(ranges_.back().end, end);
      return;
    }
    ranges_.push_back({begin, end});
    if (ranges_.size() >= limit_) {
      settle();
      limit_ = std::max(kLeast, 2 * ranges_.size());
    }
  }
  bool isEmpty() const { return ranges_.empty(); }
  /// Returns the ranges in ascending order, disjoint and not adjacent.
  const std::vector<Range> &settled() {
    settle();
    return ranges_;
  }

private:
  static constexpr size_t kLeast = size_t(1) << 14;
  void settle() {
    std::sort(ranges_.begin(), ranges_.end(),
              [](const Range &a, const Range &b) { return a.begin < b.begin; });
    size_t kept = 0;
    for (const Range &range : ranges_) {
      if (kept && range.begin <= ranges_[kept - 1].end)
        ranges_[kept - 1].end = std::max(ranges_[kept - 1].end, range.end);
      else
        ranges_[kept++] = range;
    }
    ranges_.resize(kept);
  }
  std::vector<Range> ranges_;
  size_t limit_ = kLeast;
};

/// The global memory that an operation read and wrote, without flags (strong
/// accesses).
struct AccessedRanges {
  Ranges reads, writes;
  /// If wantsSectors, the 32-byte sectors that each block touched, counted once
  /// per block: the traffic of L2 if each multiprocessor's L1 keeps what the
  /// block has read.
  bool wantsSectors = false;
  uint64_t blockSectors = 0;
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_RANGES_H
