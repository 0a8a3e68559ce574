//===- Order.h - What happens before what -----------------------*- C++ -*-===//
//
// Operations on a GPU are ordered by their stream, events, graphs and by what
// the host waited for before it enqueued them; two that touch the same bytes,
// one writing, must be. Whether they are does not depend on when they ran.
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

/// An operation by the chain (a stream, or a stream's part of a graph launched
/// on one) that it belongs to, and its number there.
struct Stamp {
  uint32_t chain = 0, number = 0; ///< From 1.
};

/// The latest operation of each chain that came before.
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

/// Words by which streams tell each other, and the host them, how far they are.
class FlagOrder {
public:
  /// An operation of a GPU that knows `clock` wrote `value`. If not
  /// `isReleased`, what it knows may be seen after the word.
  void write(uint64_t address, uint32_t value, const Clock &clock,
             bool isReleased);
  /// `clock` is of who found `value` there. What a GPU did not write, the host
  /// did; of it only this is known: that it can have seen every word that was
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

/// Who touched each byte last.
class AccessOrder {
public:
  using Name = std::shared_ptr<const std::string>;

  /// An operation touched these. If an earlier one, which `clock` does not
  /// know, is in conflict: what and where.
  std::optional<std::string> touch(softgpu::Touched &touched, Stamp stamp,
                                   const Clock &clock, const Name &name);
  /// Freed, or waited for by everybody.
  void forget(softgpu::Range range);

private:
  struct Access {
    Stamp stamp;
    Name name; ///< Null: nobody.
  };
  struct Segment {
    uint64_t end;
    Access writer;
    std::vector<Access> readers; ///< Since the write, the latest of each chain.
  };
  using Segments = std::map<uint64_t, Segment>; ///< By begin.

  Segments::iterator splitAt(uint64_t address);

  Segments segments_;
};

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_ORDER_H
