//===- TargetJson.h - Device descriptions as JSON ---------------*- C++ -*-===//

#ifndef MOE_COMPILER_TARGETS_TARGETJSON_H
#define MOE_COMPILER_TARGETS_TARGETJSON_H

#include "compiler/Targets/Target.h"

#include <string_view>

namespace moec {

/// Parses one device object or {"devices": [...]}; errors, of code InvalidFile,
/// are "name:line:column: ...". Names of devices ("gpu0", "cpu0") are not set.
moert::StatusOr<std::vector<DeviceDesc>> parseDevices(std::string_view json,
                                                      std::string_view name);

/// Checks that the devices make a target, orders GPUs before the CPU and gives
/// every device its name.
moert::StatusOr<TargetDesc> makeTarget(std::string name,
                                       std::vector<DeviceDesc> devices);

} // namespace moec

#endif // MOE_COMPILER_TARGETS_TARGETJSON_H
