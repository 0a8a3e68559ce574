//===- NativeTarget.h - Measures this machine -------------------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_NATIVETARGET_H
#define MOE_COMPILER_MACHINE_TARGETS_NATIVETARGET_H

#include "compiler/Machine/Targets/Target.h"
#include "runtime/base/OutputTarget.h"
#include "runtime/device/cpu/Calibrate.h"
#include "runtime/device/cpu/KernelRates.h"
#include "runtime/device/cuda/CudaDriver.h"

#include <chrono>
#include <functional>

namespace moec {

/// Functions that measure the CPU; tests replace them.
struct CpuMeasurement {
  /// Measures all rates of `cores` cores, each for `seconds`.
  std::function<moert::StatusOr<moert::CpuLimits>(int cores, double seconds)>
      limits;
  /// Measures the read bandwidth of 1 ... `cores` cores.
  std::function<moert::StatusOr<std::vector<moert::Rate>>(
      int cores, double seconds, const std::function<void(int)> &progress)>
      readByCores;
  /// Measures all kernels once, with fewer sizes if `brief`. If empty, kernels
  /// are not measured.
  std::function<moert::StatusOr<moert::KernelRates>(
      int cores, bool brief,
      const std::function<void(std::string_view)> &progress)>
      kernels = {};

  static CpuMeasurement ofThisMachine();
};

/// Most repetitions of a measurement that other programs disturb.
inline constexpr int kMeasurements = 3;

/// Figures of a busy machine are used for so long before it is measured again.
inline constexpr std::chrono::minutes kBusyTime{60};

/// Describes this machine: instruction set, cores and memory of its CPU are
/// detected, and rates are measured with short runs of every kernel (a few
/// seconds), unless the user's cache folder has the result of an earlier call
/// or of `moec calibrate` on this machine. The result is saved, so that
/// compiling twice gives the same plan. Measurements on a busy machine are kept
/// for kBusyTime. GPUs are included, as reported by the driver `cudaLibrary`.
/// Notes mention a busy machine, GPUs that are left out, a saved description
/// that is unusable (damaged, or of another version or machine), and that
/// nothing can be saved.
moert::StatusOr<TargetDesc>
nativeTarget(const CpuMeasurement &cpu = CpuMeasurement::ofThisMachine(),
             const CalibrationProgress &progress = {},
             const std::string &cudaLibrary = moert::CudaDriver::kLibrary);

/// Describes this machine as nativeTarget() does, but measures nothing: rates
/// are assumed.
moert::StatusOr<TargetDesc>
assumedNative(const std::string &cudaLibrary = moert::CudaDriver::kLibrary);

/// Returns whether nativeTarget() would measure nothing.
bool isNativeKnown(
    const std::string &cudaLibrary = moert::CudaDriver::kLibrary);

struct NativeOptions {
  double seconds = 0.5; ///< Time for each measurement of peaks and bandwidth.
  int measurements = kMeasurements;
  /// Receives the names of kernels as they are measured, dozens per second.
  CalibrationProgress detail = {};
  std::string cudaLibrary = moert::CudaDriver::kLibrary;
  CpuMeasurement cpu = CpuMeasurement::ofThisMachine();
};

struct Calibration {
  /// Its notes name the GPUs that are left out, with reasons.
  TargetDesc target;
  /// Disturbance of the CPU's last measurement. If it is not quiet, other
  /// programs ran all the time, and the rates may be too low to save.
  moert::Disturbance disturbance;
};

/// Measures this machine with longer runs: read bandwidth by number of cores,
/// kernels at more sizes, and GPUs. Does not save the result.
moert::StatusOr<Calibration>
calibrateNative(const CalibrationProgress &progress,
                const NativeOptions &options = {});

/// Returns the file in which nativeTarget() saves measurements, or "" without a
/// cache folder.
std::string nativeTargetFile();
/// Returns the file for measurements on a busy machine, or "".
std::string busyNativeFile();
/// Saves `target` as the meaning of "native" from now on.
moert::Status saveNativeTarget(const TargetDesc &target);

/// Writes a file for loadTargetFile(), completely or not at all.
moert::Status saveTargetFile(moert::OutputTarget to, const TargetDesc &target);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_NATIVETARGET_H
