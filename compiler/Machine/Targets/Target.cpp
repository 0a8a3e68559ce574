#include "compiler/Machine/Targets/Target.h"

#include "compiler/Machine/Targets/NativeTarget.h"
#include "compiler/Machine/Targets/TargetJson.h"
#include "runtime/base/Suggest.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <utility>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
#include "ShippedTargets.inc"

/// Appends the devices and notes of one "[Nx]name" part of a target.
Status appendPart(std::string_view part, std::string_view spec,
                  const CalibrationProgress &progress, TargetDesc &target) {
  std::vector<DeviceDesc> &devices = target.devices;
  unsigned count = 1;
  std::string_view name = part;
  if (size_t x = part.find('x'); x != std::string_view::npos) {
    unsigned number = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + x, number);
    if (error == std::errc() && end == part.data() + x) {
      if (number < 1 || number > 16)
        return Status(StatusCode::Usage,
                      fmt::format("target {}: {} devices asked for, expected 1 "
                                  "to 16",
                                  spec, number));
      count = number;
      name = part.substr(x + 1);
    }
  }
  for (const auto &[shipped, json] : shippedTargets) {
    if (shipped != name)
      continue;
    MOE_ASSIGN_OR_RETURN(std::vector<DeviceDesc> parsed,
                         parseDevices(json, shipped));
    for (unsigned i = 0; i < count; ++i)
      devices.insert(devices.end(), parsed.begin(), parsed.end());
    return Status::ok();
  }
  if (name == "native") {
    MOE_ASSIGN_OR_RETURN(
        TargetDesc native,
        nativeTarget(CpuMeasurement::ofThisMachine(), progress));
    std::ranges::move(native.devices, std::back_inserter(devices));
    std::ranges::move(native.notes, std::back_inserter(target.notes));
    return Status::ok();
  }
  std::vector<std::string> known = targetNames();
  std::optional<std::string> meant = moert::closestMatch(name, known);
  return Status(
      StatusCode::Usage,
      fmt::format("target {}: no description is called \"{}\"{}; known: {} "
                  "(or pass --target-file)",
                  spec, name,
                  meant ? fmt::format(", did you mean \"{}\"?", *meant) : "",
                  fmt::join(known, ", ")));
}
} // namespace

const DeviceDesc *TargetDesc::find(std::string_view deviceName) const {
  for (const DeviceDesc &device : devices)
    if (device.name == deviceName)
      return &device;
  return nullptr;
}

std::vector<std::string> targetNames() {
  std::vector<std::string> names;
  for (const auto &[name, json] : shippedTargets)
    names.emplace_back(name);
  names.emplace_back("native");
  return names;
}

StatusOr<TargetDesc> describeParts(std::string_view spec,
                                   const CalibrationProgress &progress) {
  TargetDesc parts;
  std::string_view rest = spec;
  while (true) {
    size_t plus = rest.find('+');
    MOE_RETURN_IF_ERROR(
        appendPart(rest.substr(0, plus), spec, progress, parts));
    if (plus == std::string_view::npos)
      break;
    rest.remove_prefix(plus + 1);
  }
  TargetDesc target = joinDevices(std::string(spec), std::move(parts.devices));
  target.notes = std::move(parts.notes);
  return target;
}

StatusOr<TargetDesc> resolveTarget(std::string_view spec,
                                   const CalibrationProgress &progress) {
  MOE_ASSIGN_OR_RETURN(TargetDesc parts, describeParts(spec, progress));
  MOE_ASSIGN_OR_RETURN(TargetDesc target,
                       makeTarget(parts.name, std::move(parts.devices)));
  target.notes = std::move(parts.notes);
  return target;
}

} // namespace moec
