//===- TargetJson.h - Device descriptions as JSON ---------------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_TARGETJSON_H
#define MOE_COMPILER_MACHINE_TARGETS_TARGETJSON_H

#include "compiler/Machine/Targets/Target.h"

#include <string_view>

namespace moec {

/// Parses one device object or {"devices": [...]}; errors, of code InvalidFile,
/// are "name:line:column: ...". Names of devices ("gpu0", "cpu0") are not set.
moert::StatusOr<std::vector<DeviceDesc>> parseDevices(std::string_view json,
                                                      std::string_view name);

/// Orders GPUs before CPUs and gives every device its name. They need not make
/// a machine.
TargetDesc joinDevices(std::string name, std::vector<DeviceDesc> devices);

/// joinDevices() for a machine: Usage unless exactly one of them is a CPU.
moert::StatusOr<TargetDesc> makeTarget(std::string name,
                                       std::vector<DeviceDesc> devices);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_TARGETJSON_H
