//===- Profile.h - Time by instruction of a run -----------------*- C++ -*-===//

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

/// Sums over runs of one instruction or of several.
struct ProfileEntry {
  uint64_t calls = 0;
  InstructionTime time; ///< Times of worker 0, or of a GPU's queue.
  StepWork work;

  ProfileEntry &operator+=(const ProfileEntry &other);
};

struct ProfileRow {
  std::string phase;
  std::string name;   ///< Name of an op ("linear"), a part or a label.
  std::string device; ///< The queue that runs it: "cpu0", "gpu0 copies".
  ProfileEntry entry;
};

/// Sums over the steps of a phase.
struct ProfileSteps {
  std::string phase;
  uint64_t steps = 0;
  double seconds = 0; ///< Seconds with the time in which workers wake up.
  /// Seconds in instructions of the queue that has most of them. Of the CPU's
  /// queue these are those of worker 0.
  double run = 0;

  /// Fraction of the time in which that queue executed no instruction: waits at
  /// barriers, time between instructions, and waking the thread pool.
  double overhead() const { return seconds > 0 ? 1 - run / seconds : 0; }
  /// The overhead of a step in which every barrier takes its median time. This
  /// leaves out moments in which another program had a worker's core.
  double medianOverhead = 0;
};

/// How a queue spent the time of all steps. Queues work at the same time; the
/// three parts of each add up to Profile::seconds().
struct ProfileQueue {
  std::string device; ///< Same meaning as in ProfileRow.
  double run = 0, wait = 0, rest = 0;
};

/// The key by which instructions are grouped into rows.
enum class ProfileKey {
  Op,    ///< Kind of instruction: "experts_gate_up".
  Part,  ///< Part of a layer or of the model: "ffn_experts" of all layers.
  Label, ///< Label in the explanation: "blk.3.ffn_experts".
};

/// Collects the times of steps. `plan` must outlive it.
class Profile {
public:
  /// With `traced`, keeps every instruction of every step for trace().
  Profile(const Plan &plan, bool traced);

  void add(const PhaseRun &times);

  /// Returns the rows of all phases that ran, in the plan's order; within a
  /// phase, the rows with the longest time first.
  std::vector<ProfileRow> rows(ProfileKey key) const;
  /// Returns the queues that ran instructions, in the plan's order.
  std::vector<ProfileQueue> queues() const;
  /// Returns the sums of the phases that ran, in the plan's order.
  std::vector<ProfileSteps> steps() const;
  /// Seconds of all steps, including the time to wake workers.
  double seconds() const { return seconds_; }

  /// Returns the steps in Chrome's trace event format (chrome://tracing,
  /// Perfetto). Pauses between steps are left out of its time line.
  std::string trace() const;

private:
  struct Phase {
    const fb::Phase *table = nullptr;
    std::vector<ProfileEntry> entries; ///< One for each instruction.
    /// For each instruction: one entry per step.
    std::vector<std::vector<double>> waits;
    /// For each queue: seconds in instructions, and others except at barriers,
    /// per step.
    std::vector<std::vector<double>> runs, rests;
    uint64_t steps = 0;
    double seconds = 0;

    /// The queue with the most seconds in instructions.
    uint32_t busiest() const;
    double runOf(uint32_t queue) const;
    double medianOverhead() const;
  };
  struct Event {
    uint32_t phase, instruction;
    int32_t tokens;
    double start; ///< Beginning of the wait on the time line.
    InstructionTime time;
  };

  std::string nameOf(const fb::Instruction &instruction, ProfileKey key) const;
  std::string deviceName(uint32_t queue) const;

  const Plan &plan_;
  bool traced_;
  double seconds_ = 0;
  std::vector<Phase> phases_;
  std::vector<Event> events_;
};

/// Conditions of the measurement.
struct ProfileSetting {
  std::optional<CpuLimits> limits;
  bool mapped = true; ///< Whether weights are read from mapped files.
  MappedFile::PageUse weightPages;
};

/// Tables for users. Rates are the work of all workers divided by the run time
/// of worker 0, whose waits are shown separately. Without limits, the column of
/// fractions is empty; it is so for GPUs. Shares are of the time of all steps.
std::string profileText(const Profile &profile, const ProfileSetting &setting);
std::string profileJson(const Profile &profile, const ProfileSetting &setting);

} // namespace moert

#endif // MOE_TOOLS_MOERT_PROFILE_H
