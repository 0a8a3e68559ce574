//===- TeamPolicy.h - How many workers beside busy neighbours ---*- C++ -*-===//
//
// Workers meet at barriers every few microseconds. Where another process wants
// one of their cores, the worker on it runs half of the time, in slices of
// milliseconds, and all others wait for it: the team is slower than one that
// leaves that core alone. So a team that finds its workers queueing for CPUs
// tries smaller ones, keeps the one that was fastest, and looks again later.
//
// The policy decides between steps and knows no clock: what it is told are the
// times of steps, and how long workers have queued. A machine without
// neighbours costs it nothing; it never leaves the full team there.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_TEAMPOLICY_H
#define MOE_RUNTIME_DEVICE_CPU_TEAMPOLICY_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moert {

/// Steps of one kind are the same work, but for what their position adds.
struct StepKind {
  const void *program; ///< Which instructions.
  int32_t tokens;

  bool operator==(const StepKind &) const = default;
};

class TeamPolicy {
public:
  /// Teams of `least` to `full` workers, 1 <= least <= full.
  explicit TeamPolicy(int32_t full, int32_t least = 1)
      : full_(full), least_(least), team_(full) {}

  /// The team of the next step.
  int32_t team() const { return team_; }

  /// Notes a step that this team ran, in seconds of any clock that never goes
  /// back. True where decide() is to be called before the next step.
  [[nodiscard]] bool ran(const StepKind &kind, double begin, double end);

  /// `queued`: the sum over all workers of the seconds, since any moment, that
  /// they could have run but had no CPU. Always 0 where the system does not
  /// tell, which keeps the team full.
  void decide(double queued);

  /// Steps of other policies follow: none of them counts here.
  void pause() { open_ = false; }

  /// A team is judged by what it does in at least this time. Long enough for
  /// some of the scheduler's slices (1.4 ms on two cores, 3 ms on many).
  static constexpr double kWindowSeconds = 0.01;
  /// Workers without a CPU, on average, from which on smaller teams are tried.
  static constexpr double kMissing = 0.2;
  /// A choice stays for so long, or so many times as long as choosing took,
  /// whichever is longer ...
  static constexpr double kHoldSeconds = 0.1;
  static constexpr double kHoldLooks = 8;
  /// ... and for up to so many times that when looking again found the same.
  static constexpr double kMaxPatience = 8;

private:
  /// What a team did in a window.
  struct Sample {
    int32_t team = 0;
    double seconds = 0;
    double speed = 0;   ///< Work, weighed by Cost, per second.
    double missing = 0; ///< Workers without a CPU, on average.
  };
  void judge(const Sample &sample);
  void settle();
  int32_t smallerThan(const Sample &sample) const;

  /// What weighs a step against those of other kinds.
  struct Cost {
    StepKind kind;
    double fastest; ///< Seconds.
    double weight;  ///< `fastest`, but the same in all windows of a look.
  };
  /// More kinds than any one way of generating has.
  static constexpr size_t kKinds = 8;

  int32_t full_, least_;
  int32_t team_;
  std::vector<Cost> costs_;
  size_t nextCost_ = 0; ///< Which one a new kind displaces.

  // The window: the steps since decide() was called last.
  bool open_ = false;
  double seconds_ = 0, work_ = 0, queuedBefore_ = 0;
  double now_ = 0; ///< When the last step ended.

  // Looking: teams from the full one down are tried, a window each.
  bool looking_ = false;
  double lookSeconds_ = 0; ///< In steps so far.
  int32_t teamBefore_ = 0;
  Sample best_;

  double nextLook_ = 0; ///< Not before.
  double patience_ = 1;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_TEAMPOLICY_H
