//===- TargetClasses.h - What kernels reach of a kind of core ---*- C++ -*-===//
//
// classes/*.json: what devices that are alike have in common, such as the part
// of its peak that kernels reach on a core of that kind, or a link.
//
//   {"class": "ada", "title": "...", "archs": [89],
//    "read_efficiency": 0.69, "read_basis": "derived", "read_why": "...",
//    "link_gbps": 31.5, "link_source": "...", "link_latency_us": 28,
//    "instruction_us": 1.7, "meeting_us": 4, "source": "..."}
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_TARGETCLASSES_H
#define MOE_COMPILER_MACHINE_TARGETS_TARGETCLASSES_H

#include "compiler/Machine/Targets/Target.h"

namespace moec {

/// What "read_efficiency", "read_source" and so on are about.
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

/// Names of the classes, in alphabetical order.
std::vector<std::string> classNames();

/// Whether the class describes a link.
bool isLinkClass(std::string_view name);

/// Gives `device` what it does not state itself. Usage for an unknown class,
/// with the nearest.
moert::Status applyClass(std::string_view name, DeviceDesc &device);

/// In place of the link that `device` has.
moert::Status replaceLink(std::string_view name, DeviceDesc &device);

/// The class of GPUs of a compute capability * 10, or of the nearest below it
/// that has one.
std::string classOfArch(int arch);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_TARGETCLASSES_H
