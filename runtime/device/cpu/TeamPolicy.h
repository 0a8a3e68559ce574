//===- TeamPolicy.h - Leaves busy cores to other programs -------*- C++ -*-===//
//
// Workers synchronise at barriers every few microseconds. If another process
// uses one of their cores, the worker there runs half of the time, in time
// slices of milliseconds, and all others wait for it: fewer workers, which
// leave that core alone, are faster. When workers have to wait for CPUs, the
// policy therefore tries smaller teams, keeps the fastest, and looks again
// later.
//
// The policy decides between steps and reads no clock: it is given the times of
// steps and how long workers waited for a CPU. On a machine without other load
// it always uses the full team and costs nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_TEAMPOLICY_H
#define MOE_RUNTIME_DEVICE_CPU_TEAMPOLICY_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moert {

/// Steps of the same kind do the same work, except for the effect of the
/// position.
struct StepKind {
  const void *program; ///< Identifies the instructions.
  int32_t tokens;

  bool operator==(const StepKind &) const = default;
};

class TeamPolicy {
public:
  /// The policy chooses among `least` to `full` workers, 1 <= least <= full.
  explicit TeamPolicy(int32_t full, int32_t least = 1)
      : full_(full), least_(least), team_(full) {}

  /// Number of workers for the next step.
  int32_t team() const { return team_; }

  /// Records a step that ran with team(); times are in seconds of any monotonic
  /// clock. Returns true if decide() has to be called before the next step.
  [[nodiscard]] bool ran(const StepKind &kind, double begin, double end);

  /// `queued` is the sum over all workers of the seconds that they could have
  /// run but had no CPU, counted from any fixed moment. If the system does not
  /// report it, it is always 0, and the team stays full.
  void decide(double queued);

  /// Ends the current window, because steps of other policies follow.
  void pause() { open_ = false; }

  /// Minimum time over which a team is judged. It covers several time slices of
  /// the scheduler (1.4 ms on two cores, 3 ms on many).
  static constexpr double kWindowSeconds = 0.01;
  /// Average number of workers without a CPU above which smaller teams are
  /// tried.
  static constexpr double kMissing = 0.2;
  /// A choice is kept for this time, or for this multiple of the time that the
  /// search took, whichever is longer ...
  static constexpr double kHoldSeconds = 0.1;
  static constexpr double kHoldSearches = 8;
  /// ... and for up to this multiple of it if later searches found the same
  /// team.
  static constexpr double kMaxPatience = 8;

private:
  /// Performance of a team in a window.
  struct Sample {
    int32_t team = 0;
    double seconds = 0;
    double speed = 0;   ///< Work per second, weighted by Cost.
    double missing = 0; ///< Average number of workers without a CPU.
  };
  void judge(const Sample &sample);
  void settle();
  int32_t smallerThan(const Sample &sample) const;

  /// Weight of a step relative to steps of other kinds.
  struct Cost {
    StepKind kind;
    double fastest; ///< Seconds.
    double weight;  ///< Like `fastest`, but constant during a search.
  };
  /// More kinds than generation uses in any mode.
  static constexpr size_t kKinds = 8;

  int32_t full_, least_;
  int32_t team_;
  std::vector<Cost> costs_;
  size_t nextCost_ = 0; ///< Index of the entry that a new kind replaces.

  // The window: the steps since the last call of decide().
  bool open_ = false;
  double seconds_ = 0, work_ = 0, queuedBefore_ = 0;
  double now_ = 0; ///< End of the last step.

  // A search tries teams from the full one down, for one window each.
  bool isSearching_ = false;
  double searchSeconds_ = 0; ///< Duration of the steps of this search.
  int32_t teamBefore_ = 0;
  Sample best_;

  double nextSearch_ = 0; ///< The next search does not begin before.
  double patience_ = 1;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_TEAMPOLICY_H
