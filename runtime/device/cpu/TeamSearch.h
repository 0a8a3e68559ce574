//===- TeamSearch.h - Compares numbers of workers ---------------*- C++ -*-===//
//
// Steps do not take equally long, and other programs come and go, so one look
// at each of two teams says little. A search looks once at each candidate. Then
// it looks at the best of them and at the team that was there before in turn,
// until one is faster by more than chance explains.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_TEAMSEARCH_H
#define MOE_RUNTIME_DEVICE_CPU_TEAMSEARCH_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moert {

/// Performance of a team in a window: some consecutive steps.
struct TeamSample {
  int32_t team = 0;
  double seconds = 0;
  double speed = 0;   ///< Work per second, in the units of Cost::weight.
  double missing = 0; ///< Average number of workers without a CPU.
  int windows = 1;    ///< Number of windows that this is the sum of.
};

class TeamSearch {
public:
  struct Candidates {
    /// Numbers of workers, in the order in which they are tried.
    std::vector<int32_t> teams;
    /// The smallest team that the search may try. It tries teams smaller than
    /// the last of `teams`, or than `base` if `teams` is empty, while some of
    /// their workers get no CPU.
    int32_t least;
  };

  /// `base` is the sample of the present team.
  TeamSearch(const TeamSample &base, Candidates candidates);

  /// Returns the team to look at next, or the choice if the search is done.
  int32_t team() const { return team_; }
  bool isDone() const { return isDone_; }
  /// Takes a sample of team().
  void add(const TeamSample &sample);

  /// Seconds that this search has cost: the time in which teams that were not
  /// chosen would have done more if they had been as fast as the better one of
  /// the choice and the team before.
  double lostSeconds() const;
  /// Returns the sample of the team before.
  TeamSample base() const { return total(arms_.front().team); }
  /// Returns the sample of a team over all windows; its seconds are 0 if the
  /// search did not look at it.
  TeamSample total(int32_t team) const;

  /// Average number of workers without a CPU above which a smaller team is
  /// looked at.
  static constexpr double kMissing = 0.2;
  /// A team has to be faster by this fraction to replace another.
  static constexpr double kGain = 0.01;
  /// If one team is faster by this factor in one window, the search ends.
  static constexpr double kPlain = 1.25;
  /// If the difference is smaller, each team is measured in up to this number
  /// of windows.
  static constexpr size_t kRounds = 12;

private:
  struct Arm {
    int32_t team;
    double seconds = 0, work = 0, missing = 0;
    std::vector<double> speeds = {}; ///< One per window.

    double speed() const { return work / seconds; }
    double relativeVariance() const;
  };
  /// The result so far of comparing the two finalists.
  enum class Verdict { Unclear, Base, Challenger };
  static Verdict compare(const Arm &base, const Arm &challenger);
  Arm &armOf(int32_t team);
  void next(const TeamSample &last);

  std::vector<Arm> arms_; ///< The first one is that of the former team.
  Candidates candidates_;
  /// Number of candidates that were tried or are being tried.
  size_t taken_ = 0;
  bool descends_ = false; ///< Whether teams below the last candidate are tried.
  int32_t team_;
  bool isDone_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_TEAMSEARCH_H
