//===- TeamPolicy.h - Chooses the workers of the next step ------*- C++ -*-===//
//
// Workers synchronise at barriers every few microseconds, so a step is as slow
// as the slowest of its workers, and more of them are not always faster: memory
// may have been saturated before, the last ones may be efficiency cores or
// hyper-thread siblings, another process may use one of their cores (its worker
// then runs half of the time, in time slices of milliseconds), or a quota may
// stop all of them until its period ends.
//
// The policy finds the fastest number of workers and keeps it current. It looks
// at other teams for short windows of time (TeamSearch): at the start, now and
// then at a neighbour, at once when workers have to wait for CPUs or steps have
// become slower, and when CPUs that were taken are free again. Looks at slower
// teams may cost a hundredth of the time.
//
// The policy decides between steps and reads no clock: it is given the times of
// steps and what the system says of the load.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_TEAMPOLICY_H
#define MOE_RUNTIME_DEVICE_CPU_TEAMPOLICY_H

#include "runtime/device/cpu/TeamSearch.h"
#include "runtime/device/cpu/ThreadCount.h"

#include <cstddef>
#include <optional>

namespace moert {

/// Steps of the same kind do the same work, except for the effect of the
/// position.
struct StepKind {
  const void *program; ///< Identifies the instructions of the steps.
  int32_t tokens;

  bool operator==(const StepKind &) const = default;
};

/// Figures of the system about the load.
struct CpuLoad {
  /// Sum over all workers of the seconds that they could have run but had no
  /// CPU, counted from any fixed moment; always 0 if the system does not say.
  double queued = 0;
  /// CPUs of the machine minus threads that run or could run now; 0 if the
  /// system does not say. A hint only: it may include CPUs that this process
  /// may not use.
  double free = 0;
};

class TeamPolicy {
public:
  explicit TeamPolicy(TeamRange range)
      : range_(std::move(range)), team_(range_.first), home_(range_.first) {}

  /// Number of workers for the next step.
  int32_t team() const { return team_; }

  /// Records a step that ran with team(); times are in seconds of any monotonic
  /// clock. Returns true if decide() has to be called before the next step.
  [[nodiscard]] bool ran(const StepKind &kind, double begin, double end);

  void decide(const CpuLoad &load);

  /// Ends the current window, because steps of other policies follow.
  void pause() { open_ = false; }

  /// Minimum time over which a team is judged. It covers several time slices of
  /// the scheduler (1.4 ms on two cores, 3 ms on many).
  static constexpr double kWindowSeconds = 0.01;
  /// The same if a quota stops one of the teams: several of its periods, which
  /// are 100 ms in practice.
  static constexpr double kStoppedSeconds = 0.5;
  /// A choice is kept for this time, and for up to kMaxPatience times as long
  /// if searches keep finding the same team. While CPUs are taken, it is kept
  /// for a shorter time, but kLookShare holds for each search.
  static constexpr double kHoldSeconds = 0.1;
  static constexpr double kMaxPatience = 64, kMostBackPatience = 8;
  /// Fraction of the time that looks at slower teams may cost, and seconds that
  /// they may cost at the start and at once.
  static constexpr double kLookShare = 0.01;
  static constexpr double kFirstCredit = 0.05, kMostCredit = 1;
  /// Workers whose CPUs are used by others are called back if the system
  /// reports a free CPU in so many windows in a row.
  static constexpr int kFreeWindows = 3;
  /// The policy searches for a smaller team if the speed was below kSlower
  /// times its recent average in kSlowWindows windows in a row.
  static constexpr double kSlower = 0.8;
  static constexpr int kSlowWindows = 5;

private:
  /// The reason why a search began.
  enum class Cause {
    Start,
    Neighbour, ///< Enough time has passed to try a neighbouring size.
    Disturbed, ///< Workers have no CPU, or steps have slowed down.
    Back,      ///< CPUs that other programs used may be free now.
  };
  void watch(const TeamSample &sample, double free);
  void lookAround(const TeamSample &sample);
  void begin(Cause cause, const TeamSample &base, std::vector<int32_t> teams);
  void settle();
  bool hasSlowed(const TeamSample &sample);
  double windowSeconds() const;
  bool isAffordable(const TeamSample &base, int32_t team) const;
  std::vector<int32_t> neighbours() const;

  /// Weight of a step relative to steps of other kinds.
  struct Cost {
    StepKind kind;
    double fastest; ///< Time of the fastest step, in seconds.
    double weight;  ///< Like `fastest`, but constant during a search.
  };
  /// More kinds than generation uses in any mode.
  static constexpr size_t kKinds = 8;

  TeamRange range_;
  int32_t team_;
  /// The fastest team when no other program disturbs; team_ is smaller while
  /// one does.
  int32_t home_;
  std::vector<Cost> costs_;
  /// Index of the entry that a new kind of step replaces.
  size_t nextCost_ = 0;

  // The window: the steps since the last call of decide().
  bool open_ = false;
  double seconds_ = 0, work_ = 0, queuedBefore_ = 0;
  int32_t steps_ = 0;
  double now_ = 0; ///< End of the last step.

  std::optional<TeamSearch> search_;
  Cause cause_ = Cause::Start;
  /// Whether a quota has stopped a team of the search.
  bool isStopped_ = false;

  bool hasStarted_ = false;
  double credit_ = kFirstCredit; ///< Seconds that tries may cost now.
  double average_ = 0;           ///< Recent speed with team_; 0: unknown.
  int slowWindows_ = 0, disturbedWindows_ = 0, freeWindows_ = 0;
  size_t nextNeighbour_ = 0; ///< Next index in neighbours().
  /// Times before which no search of this cause begins.
  double nextLook_ = 0, nextDown_ = 0, nextBack_ = 0, nextHint_ = 0;
  double patience_ = 1, downPatience_ = 1, backPatience_ = 1;
  bool isHinted_ = false; ///< Whether a hint started the search for free CPUs.
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_TEAMPOLICY_H
