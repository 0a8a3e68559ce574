//===- Order.h - Happens-before order of GPU operations ---------*- C++ -*-===//
//
// Operations on a GPU are ordered by their stream, events, graphs and by what
// the host waited for before it enqueued them. Two operations that touch the
// same bytes, at least one of them writing, must be ordered. Whether they are
// does not depend on when they ran.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_CUDA_ORDER_H
#define MOE_TEST_SOFTGPU_CUDA_ORDER_H

#include "test/softgpu/Ranges.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace softcuda {

/// Identifies an operation by its chain (a stream, or a stream's part of a
/// graph launched on one) and its number there.
struct Stamp {
  uint32_t chain = 0, number = 0; ///< `number` counts from 1.
};

/// The latest operation of each chain that happened before.
class Clock {
public:
  void join(const Clock &other);
  void add(Stamp stamp);
  bool has(Stamp stamp) const {
    return stamp.chain < latest_.size() && latest_[stamp.chain] >= stamp.number;
  }

private:
  std::vector<uint32_t> latest_;
};

/// Flags: words in memory by which streams tell each other, and the host, how
/// far they are. They order what came before their write before what follows
/// their read.
class FlagOrder {
public:
  /// Records that a GPU operation with the clock `clock` wrote the flag
  /// `value`. Unless the write `isReleased`, the operation's earlier writes may
  /// become visible only after the flag.
  void write(uint64_t address, uint32_t value, const Clock &clock,
             bool isReleased);
  /// The owner of `clock` found `value` there. If no GPU wrote it, the host
  /// did; then it is only assumed that the host may have seen every word
  /// written until now.
  void read(uint64_t address, uint32_t value, Clock &clock) const;
  void forget(softgpu::Range range);

private:
  struct Write {
    uint32_t value;
    Clock clock;
  };
  std::map<uint64_t, Write> writes_;
  Clock all_;
};

/// The last write of each byte, and the reads since then.
class AccessOrder {
public:
  using Name = std::shared_ptr<const std::string>;

  /// Records that an operation touched these bytes. If an earlier one that
  /// `clock` does not include is in conflict, returns which and where.
  std::optional<std::string> touch(softgpu::AccessedRanges &touched,
                                   Stamp stamp, const Clock &clock,
                                   const Name &name);
  /// The memory was freed, or everyone has waited for its operations.
  void forget(softgpu::Range range);

private:
  struct Access {
    Stamp stamp;
    Name name; ///< Name of the operation; null: there was no access.
  };
  struct Segment {
    uint64_t end;
    Access writer;
    /// The latest reader of each chain since the write.
    std::vector<Access> readers;
  };
  /// Keys are begins of segments.
  using Segments = std::map<uint64_t, Segment>;

  Segments::iterator splitAt(uint64_t address);

  Segments segments_;
};

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_ORDER_H
