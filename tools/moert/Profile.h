//===- Profile.h - Where the time of a run goes -----------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_PROFILE_H
#define MOE_TOOLS_MOERT_PROFILE_H

#include "runtime/device/cpu/Calibrate.h"
#include "runtime/engine/Engine.h"
#include "runtime/plan/StepWork.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moert {

/// Sums over runs of one instruction, or of several.
struct ProfileEntry {
  uint64_t calls = 0;
  InstructionTime time; ///< Worker 0's seconds.
  StepWork work;

  ProfileEntry &operator+=(const ProfileEntry &other);
};

struct ProfileRow {
  std::string phase;
  std::string name; ///< Of an op ("linear"), a part or a label.
  ProfileEntry entry;
};

/// A phase's steps.
struct ProfileSteps {
  std::string phase;
  uint64_t steps = 0;
  double seconds = 0; ///< Waking workers included.
  double run = 0;     ///< Worker 0's seconds in instructions.

  /// The part of the time in which worker 0 did no work of the plan: waiting at
  /// barriers, going from instruction to instruction, waking the team.
  double overhead() const { return seconds > 0 ? 1 - run / seconds : 0; }
  /// The same of a step in which every barrier took its median over the steps:
  /// without the moments in which another program had a worker's core.
  double medianOverhead = 0;
};

/// How instructions are summed into rows.
enum class ProfileKey {
  Op,    ///< Instruction kind: "experts_gate_up".
  Part,  ///< Part of a layer or of the model: "ffn_experts" of all layers.
  Label, ///< The explanation's label: "blk.3.ffn_experts".
};

/// Collects the times of steps. `plan` outlives it.
class Profile {
public:
  /// With `traced`, every instruction of every step is kept for trace().
  Profile(const Plan &plan, bool traced);

  void add(const StepTimes &times);

  /// Rows of all phases that ran: phases in the plan's order, in each the row
  /// that took longest first.
  std::vector<ProfileRow> rows(ProfileKey key) const;
  /// Of the phases that ran, in the plan's order.
  std::vector<ProfileSteps> steps() const;
  /// Seconds of all steps, waking workers included.
  double seconds() const { return seconds_; }

  /// The steps as Chrome's trace event format (chrome://tracing, Perfetto), on
  /// a time line of computing only: pauses between steps are left out.
  std::string trace() const;

private:
  struct Phase {
    const fb::Phase *table = nullptr;
    std::vector<ProfileEntry> entries;      ///< One per instruction.
    std::vector<std::vector<double>> waits; ///< By instruction, of each step.
    std::vector<double> runs;  ///< Seconds of each step in instructions,
    std::vector<double> rests; ///< and neither in those nor at barriers.
    uint64_t steps = 0;
    double seconds = 0;

    double medianOverhead() const;
  };
  struct Event {
    uint32_t phase, instruction;
    int32_t tokens;
    double start; ///< Of its wait, on the time line.
    InstructionTime time;
  };

  std::string nameOf(const fb::Instruction &instruction, ProfileKey key) const;

  const Plan &plan_;
  bool traced_;
  double seconds_ = 0;
  std::vector<Phase> phases_;
  std::vector<Event> events_;
};

/// What the times were measured with.
struct ProfileSetting {
  std::optional<CpuLimits> limits;
  bool mapped = true; ///< Weights are read from their files' mappings.
  MappedFile::PageUse weightPages;
};

/// Tables for people. Rates are of the whole team's work by the time that
/// worker 0 ran: its waits are shown beside it. Without limits, the column of
/// fractions is empty.
std::string profileText(const Profile &profile, const ProfileSetting &setting);
std::string profileJson(const Profile &profile, const ProfileSetting &setting);

} // namespace moert

#endif // MOE_TOOLS_MOERT_PROFILE_H
