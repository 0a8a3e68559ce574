//===- Moves.h - Copies that another device would need ----------*- C++ -*-===//
//
// What would have to be copied between devices if one op of a plan ran on
// another device and everything else stayed. It follows from who writes and who
// reads the op's buffers. The seconds follow from the copies that the plan has
// between the same two devices: a copy takes a latency and a time per byte.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_EXPLAIN_MOVES_H
#define MOE_COMPILER_EXPLAIN_MOVES_H

#include "compiler/Explain/Summary.h"

#include <map>
#include <set>

namespace moec {

struct MoveCopies {
  unsigned count = 0; ///< In a typical step of the phase.
  double bytes = 0;
  /// None if the plan has no copy between two of the devices to compare with.
  std::optional<double> seconds = 0;
  /// Whether the op uses a cache or state, which would move with it and with
  /// all other ops that use it.
  bool usesCache = false;
};

/// Of one phase of a plan.
class Moves {
public:
  /// `phase` is the summary's entry for `table`.
  Moves(const moert::fb::Plan &plan, const moert::fb::Phase &table,
        const PhaseCost &phase);

  /// Returns the copies if the instructions of `entry`, of the plan's
  /// explanation, ran on the device called `device`.
  MoveCopies copies(uint32_t entry, std::string_view device) const;

private:
  using Number = uint32_t;
  struct Use {
    Number instruction;
    bool writes;
  };

  Number deviceOf(Number instruction) const;
  double bytesOf(Number buffer) const;
  std::optional<Number> sourceOf(Number buffer, Number before,
                                 Number entry) const;
  std::set<Number> readersOf(Number buffer, Number after, Number entry,
                             unsigned depth = 0) const;
  bool hasCopyTo(Number source, Number device) const;
  std::optional<double> seconds(Number from, Number to, double bytes) const;
  void noteCopies();

  const moert::fb::Plan &plan_;
  const moert::fb::Phase &phase_;
  int64_t tokens_;
  std::vector<std::vector<Use>> uses_; ///< By buffer, in order.
  /// By pair of devices, the lower number first: seconds by bytes.
  std::map<std::pair<Number, Number>, std::map<double, double>> known_;
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_MOVES_H
