//===- Doctor.h - What may keep plans from running here ---------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_DOCTOR_H
#define MOE_COMPILER_DRIVER_DOCTOR_H

#include "runtime/base/Remedy.h"
#include "runtime/device/cuda/CudaDriver.h"
#include "runtime/engine/Ladder.h"

#include <optional>
#include <string>
#include <vector>

namespace moec {

/// One thing that was looked at.
struct Finding {
  enum class Level {
    Fine,
    Slow,   ///< Works, but less well than it could.
    Blocks, ///< Does not work.
  };
  std::string check, value;
  std::string hint = {}; ///< What to do; "" where nothing is to be done.
  Level level = Level::Fine;
  std::optional<moert::Remedy> remedy = {}; ///< The command that does it.
};

/// "ok", "slow", "blocks".
const char *nameOf(Finding::Level level);

/// What findings are of; tests describe other machines.
struct DoctorOptions {
  std::string systemRoot = "/sys", processRoot = "/proc";
  std::string cudaLibrary = moert::CudaDriver::kLibrary;
  std::string nvrtc;        ///< "" for the newest that is found.
  std::string folder = "."; ///< Where plans and weights would be written.
};

/// Of the machine: instruction set, cores, memory nodes, memory, huge pages,
/// limits, disk, GPUs, driver, NVRTC, calibration. Measures nothing.
std::vector<Finding> examineMachine(const DoctorOptions &options);

/// Whether the machine runs `plan`: which rung of a ladder it would be, its
/// instruction sets and GPUs, that its files are there and unchanged, that
/// memory holds it.
std::vector<Finding> examinePlan(moert::Plan plan, const moert::RungWish &wish,
                                 const DoctorOptions &options);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_DOCTOR_H
