//===- TargetClasses.h - Properties of classes of devices -------*- C++ -*-===//
//
// classes/*.json contain what similar devices have in common, such as the
// efficiency of kernels on a kind of core, or a link:
//
//   {"class": "ada", "title": "...", "archs": [89],
//    "read_efficiency": 0.69, "read_basis": "derived", "read_why": "...",
//    "link_gbps": 31.5, "link_source": "...", "link_latency_us": 28,
//    "instruction_us": 1.7, "barrier_us": 4, "source": "...",
//    "kernels_like": "4090"}
//
// "kernels_like" names the description whose kernel rates are scaled
// (ScaledRates.h) for devices of the class that have none.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_TARGETCLASSES_H
#define MOE_COMPILER_MACHINE_TARGETS_TARGETCLASSES_H

#include "compiler/Machine/Targets/Target.h"

namespace moec {

/// The peak for keys such as "read_efficiency" and "read_source".
struct PeakKey {
  std::string_view name;
  Peak DeviceDesc::*peak;
};
inline constexpr PeakKey peakKeys[] = {
    {"read", &DeviceDesc::read},          {"int8", &DeviceDesc::int8},
    {"float", &DeviceDesc::float32},      {"bf16", &DeviceDesc::bf16},
    {"unpack", &DeviceDesc::unpack},      {"link", &DeviceDesc::link},
    {"node_read", &DeviceDesc::nodeRead}, {"node_link", &DeviceDesc::nodeLink}};
std::string peakKey(const PeakKey &peak, std::string_view suffix);

/// Returns the names of the classes, in alphabetical order.
std::vector<std::string> classNames();

/// Returns whether the class describes a link.
bool isLinkClass(std::string_view name);

/// Sets properties that `device` does not state itself. Fails with Usage for an
/// unknown class and suggests the closest one.
moert::Status applyClass(std::string_view name, DeviceDesc &device);

/// Returns what "kernels_like" of the class names, or "". Fails like
/// applyClass().
moert::StatusOr<std::string> ratesOfClass(std::string_view name);

/// Replaces the link of `device` by that of a class.
moert::Status replaceLink(std::string_view name, DeviceDesc &device);

/// Returns the class of GPUs of a compute capability * 10, or that of the
/// nearest lower one.
std::string classOfArch(int arch);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_TARGETCLASSES_H
