//===- DeviceTimes.h - Where the time of steps goes -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_DEVICETIMES_H
#define MOE_RUNTIME_SERVE_DEVICETIMES_H

#include "runtime/engine/Engine.h"
#include "runtime/serve/SchedulerStats.h"

#include <vector>

namespace moert {

/// Measures instructions in some of an engine's steps and sums their times by
/// device. It is not done in all steps: a GPU has to run the measured ones
/// instruction by instruction. Not for several threads.
class DeviceTimes {
public:
  /// One of so many steps is measured.
  static constexpr uint64_t kInterval = 512;

  /// `engine` must outlive this.
  explicit DeviceTimes(Engine &engine);

  /// Call before and after each step of the engine.
  void beginStep();
  void endStep();

  const std::vector<DeviceSeconds> &devices() const { return devices_; }
  /// Sum of the measured steps' durations.
  double seconds() const { return seconds_; }

private:
  void add(const PhaseRun &run);

  Engine &engine_;
  /// For each kind of phase, the device of each instruction.
  std::vector<std::vector<uint32_t>> deviceOf_;
  std::vector<DeviceSeconds> devices_;
  double seconds_ = 0;
  uint64_t steps_ = 0;
  Engine::StepObserver other_; ///< The observer that was set before this step.
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_DEVICETIMES_H
