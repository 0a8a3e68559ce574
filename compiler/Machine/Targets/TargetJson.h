//===- TargetJson.h - Reads device descriptions from JSON -------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_TARGETJSON_H
#define MOE_COMPILER_MACHINE_TARGETS_TARGETJSON_H

#include "compiler/Machine/Targets/Target.h"

#include <string_view>

namespace moec {

/// Parses one device object or {"devices": [...]}. Errors have the code
/// InvalidFile and begin with "name:line:column: ". Device names ("gpu0",
/// "cpu0") are not set.
moert::StatusOr<std::vector<DeviceDesc>> parseDevices(std::string_view json,
                                                      std::string_view name);

/// Returns the text of the shipped description with this name or alias, or "".
std::string_view shippedText(std::string_view name);

/// Orders GPUs before CPUs and sets the names of devices, which need not form a
/// machine.
TargetDesc joinDevices(std::string name, std::vector<DeviceDesc> devices);

/// Joins devices as joinDevices() does, but to a machine: fails with Usage
/// unless exactly one device is a CPU.
moert::StatusOr<TargetDesc> makeTarget(std::string name,
                                       std::vector<DeviceDesc> devices);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_TARGETJSON_H
