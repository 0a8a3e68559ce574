#include "compiler/Machine/Targets/Target.h"

#include "compiler/Machine/Targets/NativeTarget.h"
#include "compiler/Machine/Targets/TargetClasses.h"
#include "compiler/Machine/Targets/TargetJson.h"
#include "runtime/base/JsonPlace.h"
#include "runtime/base/ParseSize.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <utility>

using moert::parseJson;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
#include "ShippedTargets.inc"

constexpr std::pair<Basis, std::string_view> basisNames[] = {
    {Basis::Unstated, ""},
    {Basis::Guessed, "guessed"},
    {Basis::Derived, "derived"},
    {Basis::Simulated, "simulated"},
    {Basis::Measured, "measured"}};

/// Returns a name in the form in which names are compared: in lower case,
/// without hyphens, underscores and spaces.
std::string plain(std::string_view name) {
  std::string text;
  for (char c : name)
    if (c != '-' && c != '_' && c != ' ')
      text += c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return text;
}

using Shipped = std::pair<std::string_view, std::string_view>;

std::vector<std::string> aliasesOf(const Shipped &entry) {
  auto json = parseJson(entry.first, entry.second, /*depth=*/4);
  return json ? json->value("aliases", std::vector<std::string>())
              : std::vector<std::string>();
}

/// Returns the shipped description with this name or alias, or null.
const Shipped *findShipped(std::string_view name) {
  std::string wanted = plain(name);
  for (const Shipped &entry : shippedTargets)
    if (plain(entry.first) == wanted)
      return &entry;
  for (const Shipped &entry : shippedTargets)
    for (const std::string &alias : aliasesOf(entry))
      if (plain(alias) == wanted)
        return &entry;
  return nullptr;
}

constexpr uint64_t kGiB = uint64_t(1) << 30;

std::string gibText(uint64_t bytes) {
  return fmt::format("{:.4g} GiB", double(bytes) / double(kGiB));
}

/// Limits the memory of the device that plans use to `bytes`.
void limitDevice(DeviceDesc &device, uint64_t bytes) {
  if (bytes < device.budgetBytes())
    device.reservedBytes = device.memoryBytes - bytes;
}

/// Applies ":SIZE" or ":LINK" to a device.
Status applyQualifier(std::string_view qualifier, std::string_view spec,
                      DeviceDesc &device) {
  auto fail = [&](const std::string &why) {
    return Status(StatusCode::Usage,
                  fmt::format("target {}: {}", moert::clipped(spec), why));
  };
  bool gpu = device.kind == DeviceKind::Cuda;
  if (auto bytes = moert::parseSize(qualifier)) {
    uint64_t size = uint64_t(*bytes);
    if (device.sharesMemory)
      return Status::ok(); // The size applies to the CPU's memory, which the
                           // GPU shares.
    if (gpu && size > device.memoryBytes)
      return fail(fmt::format("{} has {} of memory, not {}", device.model,
                              gibText(device.memoryBytes), gibText(size)));
    if (!gpu && size > device.budgetBytes())
      device.memoryBytes = size + device.reservedBytes;
    limitDevice(device, size);
    return Status::ok();
  }
  std::vector<std::string> links;
  for (const std::string &name : classNames())
    if (isLinkClass(name))
      links.push_back(name);
  bool isLink = std::ranges::find(links, plain(qualifier)) != links.end();
  if (isLink && device.sharesMemory)
    return fail(fmt::format("{} has the host's memory, and no link to it",
                            device.model));
  if (gpu && isLink)
    return replaceLink(plain(qualifier), device);
  std::optional<std::string> meant = moert::closestMatch(qualifier, links);
  return fail(fmt::format(
      "{} is not a size such as 20GiB{}{}", moert::quoted(qualifier),
      gpu ? fmt::format(" and not a link such as {}", fmt::join(links, ", "))
          : "",
      gpu && meant ? fmt::format("; did you mean \"{}\"?", *meant) : ""));
}

/// Returns a host with so many CPUs like this one, each with memory of its own.
/// What a node reads from another one is assumed to be, as for the hosts of two
/// EPYCs that ship, 0.3 times what it reads from its own memory, of which
/// kernels reach 35 %.
DeviceDesc withSockets(DeviceDesc cpu, int count) {
  if (cpu.numaNodes == 1) {
    cpu.nodeRead = cpu.read;
    cpu.nodeLink = {0.3 * cpu.read.perSecond, 0.35,
                    "assumed: as on hosts of two sockets that are described",
                    Basis::Guessed};
  }
  cpu.numaNodes *= count;
  cpu.cores *= count;
  cpu.memoryBytes *= uint64_t(count);
  for (Peak *peak :
       {&cpu.read, &cpu.int8, &cpu.float32, &cpu.bf16, &cpu.unpack})
    peak->perSecond *= count;
  cpu.title = fmt::format("{} x {}", count, cpu.title);
  return cpu;
}

/// Returns what "native" stands for.
using NativeSource = std::function<StatusOr<TargetDesc>()>;

/// Appends the devices and notes for a part "[Nx]name[:SIZE][:LINK]" of a
/// target.
Status appendPart(std::string_view whole, std::string_view spec,
                  const NativeSource &nativeDevices, TargetDesc &target) {
  std::vector<DeviceDesc> &devices = target.devices;
  std::string_view part = whole.substr(0, whole.find(':'));
  std::string_view qualifiers = whole.substr(part.size());
  unsigned count = 1;
  std::string_view name = part;
  const Shipped *shipped = findShipped(part);
  // "7800x3d" is a name, not a count.
  if (size_t x = part.find('x');
      !shipped && x != std::string_view::npos && x + 1 < part.size()) {
    unsigned number = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + x, number);
    if (error == std::errc() && end == part.data() + x) {
      if (number < 1 || number > 16)
        return Status(StatusCode::Usage,
                      fmt::format("target {}: {} devices requested, expected 1 "
                                  "to 16",
                                  moert::clipped(spec), number));
      count = number;
      name = part.substr(x + 1);
      shipped = findShipped(name);
    }
  }
  auto qualify = [&](size_t from) {
    bool seen[2] = {}; // Whether a link (0) and a size (1) were given.
    for (std::string_view rest = qualifiers; !rest.empty();) {
      rest.remove_prefix(1);
      std::string_view qualifier = rest.substr(0, rest.find(':'));
      rest.remove_prefix(qualifier.size());
      bool isSize = moert::parseSize(qualifier).isOk();
      if (std::exchange(seen[isSize], true))
        return Status(StatusCode::Usage,
                      fmt::format("target {}: \"{}\" is a second {}",
                                  moert::clipped(spec),
                                  moert::clipped(qualifier),
                                  isSize ? "size" : "link"));
      for (size_t i = from; i < devices.size(); ++i)
        MOE_RETURN_IF_ERROR(applyQualifier(qualifier, spec, devices[i]));
    }
    return Status::ok();
  };
  size_t before = devices.size();
  if (shipped) {
    MOE_ASSIGN_OR_RETURN(std::vector<DeviceDesc> parsed,
                         parseDevices(shipped->second, shipped->first));
    if (count > 1 && parsed.size() == 1 &&
        parsed.front().kind == DeviceKind::Cpu) {
      devices.push_back(withSockets(std::move(parsed.front()), int(count)));
      target.notes.push_back(fmt::format(
          "{} is a host of {} sockets, each with the rates of {}; the link "
          "between them is assumed",
          moert::clipped(part), count, moert::clipped(name)));
      return qualify(before);
    }
    for (unsigned i = 0; i < count; ++i)
      devices.insert(devices.end(), parsed.begin(), parsed.end());
    return qualify(before);
  }
  if (name == "native") {
    MOE_ASSIGN_OR_RETURN(TargetDesc native, nativeDevices());
    std::ranges::move(native.devices, std::back_inserter(devices));
    std::ranges::move(native.notes, std::back_inserter(target.notes));
    return qualify(before);
  }
  std::vector<std::string> known = targetNames(), written = known;
  for (const Shipped &entry : shippedTargets)
    std::ranges::move(aliasesOf(entry), std::back_inserter(written));
  std::optional<std::string> meant = moert::closestMatch(name, written);
  return Status(
      StatusCode::Usage,
      fmt::format("target {}: no description is called \"{}\"{}; known: {} "
                  "(or pass --target-file)",
                  moert::clipped(spec), moert::clipped(name),
                  meant ? fmt::format(", did you mean \"{}\"?", *meant) : "",
                  fmt::join(known, ", ")));
}

StatusOr<TargetDesc> partsOf(std::string_view spec,
                             const NativeSource &nativeDevices) {
  TargetDesc parts;
  std::string_view rest = spec;
  while (true) {
    size_t plus = rest.find('+');
    MOE_RETURN_IF_ERROR(
        appendPart(rest.substr(0, plus), spec, nativeDevices, parts));
    if (plus == std::string_view::npos)
      break;
    rest.remove_prefix(plus + 1);
  }
  TargetDesc target = joinDevices(std::string(spec), std::move(parts.devices));
  target.notes = std::move(parts.notes);
  return target;
}

StatusOr<TargetDesc> machineOf(TargetDesc parts) {
  MOE_ASSIGN_OR_RETURN(TargetDesc target,
                       makeTarget(parts.name, std::move(parts.devices)));
  target.notes = std::move(parts.notes);
  return target;
}
} // namespace

std::string_view nodeUseName(NodeUse use) {
  constexpr std::string_view names[] = {"any", "split", "interleaved", "one"};
  return names[size_t(use)];
}

std::optional<NodeUse> nodeUseFromName(std::string_view name) {
  for (NodeUse use : kNodeUses)
    if (nodeUseName(use) == name)
      return use;
  return std::nullopt;
}

std::string_view basisName(Basis basis) {
  return std::ranges::find(basisNames, basis, [](auto &p) { return p.first; })
      ->second;
}

std::optional<Basis> basisFromName(std::string_view name) {
  for (const auto &[basis, text] : basisNames)
    if (text == name && basis != Basis::Unstated)
      return basis;
  return std::nullopt;
}

Status limitMemory(TargetDesc &target, DeviceKind kind, uint64_t bytes) {
  bool any = false;
  for (DeviceDesc &device : target.devices)
    if (device.kind == kind) {
      limitDevice(device, bytes);
      any = true;
    }
  return any ? Status::ok()
             : Status(StatusCode::Usage,
                      fmt::format("target {} has no GPU whose memory could be "
                                  "limited",
                                  target.name));
}

size_t TargetDesc::gpuCount() const {
  return size_t(
      std::ranges::count(devices, DeviceKind::Cuda, &DeviceDesc::kind));
}

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

std::string_view shippedText(std::string_view name) {
  const Shipped *shipped = findShipped(name);
  return shipped ? shipped->second : std::string_view();
}

std::vector<std::string> targetAliases(std::string_view name) {
  const Shipped *shipped = findShipped(name);
  return shipped ? aliasesOf(*shipped) : std::vector<std::string>();
}

StatusOr<TargetDesc> describeParts(std::string_view spec,
                                   const CalibrationProgress &progress) {
  // A mistake in another part is told before this machine is measured.
  if (spec.find('+') != spec.npos || spec.find(':') != spec.npos)
    MOE_RETURN_IF_ERROR(partsOf(spec, [] { return assumedNative(); }).status());
  return partsOf(spec, [&] {
    return nativeTarget(CpuMeasurement::ofThisMachine(), progress);
  });
}

StatusOr<TargetDesc> resolveTarget(std::string_view spec,
                                   const CalibrationProgress &progress) {
  MOE_ASSIGN_OR_RETURN(TargetDesc parts, describeParts(spec, progress));
  return machineOf(std::move(parts));
}

StatusOr<std::optional<TargetDesc>> unmeasuredTarget(std::string_view spec) {
  bool isNative = false;
  MOE_ASSIGN_OR_RETURN(TargetDesc parts, partsOf(spec, [&] {
                         isNative = true;
                         return assumedNative();
                       }));
  if (!isNative || isNativeKnown())
    return std::optional<TargetDesc>();
  MOE_ASSIGN_OR_RETURN(TargetDesc target, machineOf(std::move(parts)));
  return std::optional(std::move(target));
}

} // namespace moec
