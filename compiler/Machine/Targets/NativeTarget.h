//===- NativeTarget.h - Describing this machine -----------------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_NATIVETARGET_H
#define MOE_COMPILER_MACHINE_TARGETS_NATIVETARGET_H

#include "compiler/Machine/Targets/Target.h"
#include "runtime/base/OutputTarget.h"
#include "runtime/device/cpu/Calibrate.h"
#include "runtime/device/cpu/KernelRates.h"
#include "runtime/device/cuda/CudaDriver.h"

#include <functional>

namespace moec {

/// What measures the CPU; tests make it up.
struct CpuMeasurement {
  /// All rates of so many cores, each measured for so long.
  std::function<moert::StatusOr<moert::CpuLimits>(int cores, double seconds)>
      limits;
  /// Read bandwidth of 1 ... so many cores.
  std::function<moert::StatusOr<std::vector<moert::Rate>>(
      int cores, double seconds, const std::function<void(int)> &progress)>
      readByCores;
  /// One round over the kernels, with fewer sizes if `brief`. Absent: rates of
  /// kernels are not measured.
  std::function<moert::StatusOr<moert::KernelRates>(
      int cores, bool brief,
      const std::function<void(std::string_view)> &progress)>
      kernels = {};

  static CpuMeasurement ofThisMachine();
};

/// Measurements that other programs disturb are repeated, to so many at most.
inline constexpr int kMeasurements = 3;

/// This machine: its CPU's ISA, cores and memory as detected, rates as measured
/// by short runs of every kernel (some seconds), unless the user's cache folder
/// has what an earlier call or `moec calibrate` found on this machine. It is
/// kept so that compiling twice gives the same plan; but not what was measured
/// on a busy machine. Likewise its GPUs, as the driver `cudaLibrary` tells of
/// them. Notes tell of a busy machine, why a GPU is left out, why what was kept
/// is of no use (damaged, of another version or machine), and that nothing can
/// be kept.
moert::StatusOr<TargetDesc>
nativeTarget(const CpuMeasurement &cpu = CpuMeasurement::ofThisMachine(),
             const CalibrationProgress &progress = {},
             const std::string &cudaLibrary = moert::CudaDriver::kLibrary);

struct NativeOptions {
  double seconds = 0.5; ///< Of a measurement of peaks and bandwidth.
  int measurements = kMeasurements;
  /// Told the names of kernels as they are measured, dozens a second.
  CalibrationProgress detail = {};
  std::string cudaLibrary = moert::CudaDriver::kLibrary;
  CpuMeasurement cpu = CpuMeasurement::ofThisMachine();
};

struct Calibration {
  TargetDesc target; ///< Its notes say which GPU is missing and why.
  /// Of the CPU's last measurement. Where it is not quiet, others used this
  /// machine all the time: its rates may be too low to be kept.
  moert::Disturbance disturbance;
};

/// This machine from longer runs, with read bandwidth by number of cores, what
/// each kernel does at more sizes, and its GPUs. Not stored.
moert::StatusOr<Calibration>
calibrateNative(const CalibrationProgress &progress,
                const NativeOptions &options = {});

/// Where nativeTarget() keeps measurements, "" when there is no cache folder.
std::string nativeTargetFile();
/// Makes `target` what "native" means from now on.
moert::Status saveNativeTarget(const TargetDesc &target);

/// Writes what loadTargetFile() reads, whole or not at all.
moert::Status saveTargetFile(moert::OutputTarget to, const TargetDesc &target);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_NATIVETARGET_H
