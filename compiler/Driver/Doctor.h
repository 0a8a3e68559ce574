//===- Doctor.h - Checks whether plans run on this machine ------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_DOCTOR_H
#define MOE_COMPILER_DRIVER_DOCTOR_H

#include "runtime/base/Remedy.h"
#include "runtime/device/cuda/CudaDriver.h"
#include "runtime/engine/RungChoice.h"

#include <optional>
#include <string>
#include <vector>

namespace moec {

/// The result of one check.
struct Finding {
  enum class Level {
    Fine,
    Slow,   ///< Works, but slower than it could.
    Blocks, ///< Does not work.
  };
  std::string check, value;
  std::string hint = {}; ///< What to do; "" if nothing.
  Level level = Level::Fine;
  std::optional<moert::Remedy> remedy = {}; ///< The command that does it.
};

/// "ok", "slow", "blocks".
const char *nameOf(Finding::Level level);

/// The places to examine; tests substitute other machines.
struct DoctorOptions {
  std::string systemRoot = "/sys", processRoot = "/proc";
  std::string cudaLibrary = moert::CudaDriver::kLibrary;
  std::string nvrtc;        ///< "": the newest one that is found.
  std::string folder = "."; ///< The folder for plans and weights.
};

/// Examines the machine: instruction set, cores, memory nodes, memory, huge
/// pages, limits, disk, GPUs, driver, NVRTC, calibration. Measures nothing.
std::vector<Finding> examineMachine(const DoctorOptions &options);

/// Examines whether the machine can run `plan`: the rung of a ladder that it
/// would use, instruction sets, GPUs, whether the weight files exist and are
/// unchanged, and whether they fit into memory.
std::vector<Finding> examinePlan(moert::Plan plan,
                                 const moert::RungRequest &wish,
                                 const DoctorOptions &options);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_DOCTOR_H
