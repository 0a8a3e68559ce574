//===- NativeTarget.h - Describing this machine -----------------*- C++ -*-===//

#ifndef MOE_COMPILER_TARGETS_NATIVETARGET_H
#define MOE_COMPILER_TARGETS_NATIVETARGET_H

#include "compiler/Targets/Target.h"

#include <functional>

namespace moec {

/// This machine's CPU: ISA, cores and memory as detected, rates as measured by
/// short runs (about half a second), unless the user's cache folder has those
/// of an earlier call or of `moec calibrate` on this machine. They are kept so
/// that compiling twice gives the same plan.
moert::StatusOr<DeviceDesc> nativeDevice();

/// Told what is measured next: "read bandwidth of 2 of 8 cores".
using CalibrationProgress = std::function<void(const std::string &)>;

/// The same from longer runs (about 1 s a measurement), with read bandwidth by
/// number of cores. Not stored.
moert::StatusOr<TargetDesc> calibrateNative(const CalibrationProgress &);

/// Where nativeDevice() keeps measurements, "" when there is no cache folder.
std::string nativeTargetFile();
/// Makes `target` what "native" means from now on.
moert::Status saveNativeTarget(const TargetDesc &target);

/// Writes what loadTargetFile() reads, whole or not at all.
moert::Status saveTargetFile(const std::string &path, const TargetDesc &target);

} // namespace moec

#endif // MOE_COMPILER_TARGETS_NATIVETARGET_H
