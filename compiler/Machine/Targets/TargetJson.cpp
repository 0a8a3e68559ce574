#include "compiler/Machine/Targets/TargetJson.h"

#include "compiler/Machine/Targets/ScaledRates.h"
#include "compiler/Machine/Targets/TargetClasses.h"
#include "runtime/base/JsonPlace.h"
#include "runtime/base/ReadInput.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using moert::JsonPlace;
using moert::parseJson;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
using Json = nlohmann::ordered_json;

namespace moec {

namespace {
constexpr double kKiB = 1024, kKilo = 1e3, kGiga = 1e9, kTera = 1e12,
                 kMicro = 1e-6;
constexpr double kGibibyte = double(1ull << 30);

/// A numeric key: its unit, its valid range, and the field of a device.
struct NumberKey {
  const char *key;
  double unit;
  double least, most; ///< Least and greatest value that the file may give.
  bool required;
  bool whole; ///< Whether it must be a whole number.
  void (*set)(DeviceDesc &, double);
  double (*get)(const DeviceDesc &);
};

constexpr NumberKey numberKeys[] = {
    {"arch", 1, 50, 200, false, true,
     [](DeviceDesc &d, double v) { d.arch = int(v); },
     [](const DeviceDesc &d) { return double(d.arch); }},
    {"cores", 1, 1, 1e5, true, true,
     [](DeviceDesc &d, double v) { d.cores = int(v); },
     [](const DeviceDesc &d) { return double(d.cores); }},
    {"numa_nodes", 1, 1, 64, false, true,
     [](DeviceDesc &d, double v) { d.numaNodes = int(v); },
     [](const DeviceDesc &d) { return double(d.numaNodes); }},
    {"memory_gib", kGibibyte, 0.01, 1e6, true, false,
     [](DeviceDesc &d, double v) { d.memoryBytes = uint64_t(v); },
     [](const DeviceDesc &d) { return double(d.memoryBytes); }},
    {"reserved_gib", kGibibyte, 0, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.reservedBytes = uint64_t(v); },
     [](const DeviceDesc &d) { return double(d.reservedBytes); }},
    {"l1_kib", kKiB, 1, 1e7, false, false,
     [](DeviceDesc &d, double v) { d.l1Bytes = uint64_t(v); },
     [](const DeviceDesc &d) { return double(d.l1Bytes); }},
    {"l2_kib", kKiB, 1, 1e7, false, false,
     [](DeviceDesc &d, double v) { d.l2Bytes = uint64_t(v); },
     [](const DeviceDesc &d) { return double(d.l2Bytes); }},
    {"l3_kib", kKiB, 1, 1e7, false, false,
     [](DeviceDesc &d, double v) { d.l3Bytes = uint64_t(v); },
     [](const DeviceDesc &d) { return double(d.l3Bytes); }},
    {"read_gbps", kGiga, 0.01, 1e6, true, false,
     [](DeviceDesc &d, double v) { d.read.perSecond = v; },
     [](const DeviceDesc &d) { return d.read.perSecond; }},
    {"int8_tops", kTera, 1e-4, 1e6, true, false,
     [](DeviceDesc &d, double v) { d.int8.perSecond = v; },
     [](const DeviceDesc &d) { return d.int8.perSecond; }},
    {"float_tflops", kTera, 1e-4, 1e6, true, false,
     [](DeviceDesc &d, double v) { d.float32.perSecond = v; },
     [](const DeviceDesc &d) { return d.float32.perSecond; }},
    {"bf16_tflops", kTera, 1e-4, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.bf16.perSecond = v; },
     [](const DeviceDesc &d) { return d.bf16.perSecond; }},
    {"unpack_gweights", kGiga, 1e-3, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.unpack.perSecond = v; },
     [](const DeviceDesc &d) { return d.unpack.perSecond; }},
    {"node_read_gbps", kGiga, 0.01, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.nodeRead.perSecond = v; },
     [](const DeviceDesc &d) { return d.nodeRead.perSecond; }},
    {"node_link_gbps", kGiga, 0.001, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.nodeLink.perSecond = v; },
     [](const DeviceDesc &d) { return d.nodeLink.perSecond; }},
    {"link_gbps", kGiga, 0.001, 1e5, false, false,
     [](DeviceDesc &d, double v) { d.link.perSecond = v; },
     [](const DeviceDesc &d) { return d.link.perSecond; }},
    {"link_latency_us", kMicro, 0, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.linkLatencySeconds = v; },
     [](const DeviceDesc &d) { return d.linkLatencySeconds; }},
    {"storage_gbps", kGiga, 1e-3, 1e5, false, false,
     [](DeviceDesc &d, double v) { d.storage.bytesPerSecond = v; },
     [](const DeviceDesc &d) { return d.storage.bytesPerSecond; }},
    {"storage_kreads", kKilo, 1e-3, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.storage.readsPerSecond = v; },
     [](const DeviceDesc &d) { return d.storage.readsPerSecond; }},
    {"step_us", kMicro, 0, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.overheads.step = v; },
     [](const DeviceDesc &d) { return d.overheads.step; }},
    {"instruction_us", kMicro, 0, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.overheads.instruction = v; },
     [](const DeviceDesc &d) { return d.overheads.instruction; }},
    {"barrier_us", kMicro, 0, 1e6, false, false,
     [](DeviceDesc &d, double v) { d.overheads.barrier = v; },
     [](const DeviceDesc &d) { return d.overheads.barrier; }},
};
constexpr std::string_view textKeys[] = {"name", "model", "title",
                                         "kind", "isa",   "source"};

constexpr std::string_view efficiencySuffix = "_efficiency",
                           sourceSuffix = "_source", basisSuffix = "_basis";
constexpr const char *classesKey = "classes", *aliasesKey = "aliases",
                     *sharesKey = "shares_memory";
/// Keys of a device with a memory of its own.
constexpr std::string_view ownMemoryKeys[] = {"memory_gib", "reserved_gib",
                                              "link_gbps"};
bool isOfOwnMemory(std::string_view key) {
  return std::ranges::find(ownMemoryKeys, key) != std::end(ownMemoryKeys);
}

bool isPeakKey(std::string_view key) {
  return std::ranges::any_of(peakKeys, [&](const PeakKey &peak) {
    return key == peakKey(peak, efficiencySuffix) ||
           key == peakKey(peak, sourceSuffix) ||
           key == peakKey(peak, basisSuffix);
  });
}

/// Key of a list with one object per kernel and variant.
constexpr const char *kernelsKey = "kernels", *kernelBasisKey = "kernels_basis";
constexpr std::string_view kernelKeys[] = {"kernel", "variant", "at", "memory",
                                           "cache"};
/// More points than any measurement has.
constexpr size_t mostPoints = 64;

/// Key of a list of rates for 1, 2, ... cores.
constexpr const char *readByCoresKey = "read_gbps_by_cores";

/// Returns the text under `key`, or "" without the key.
StatusOr<std::string> textOf(const Json &object, std::string_view key,
                             const JsonPlace &place) {
  auto it = object.find(key);
  if (it == object.end())
    return std::string();
  if (!it->is_string())
    return (place / key).error(fmt::format("\"{}\" must be a string", key));
  return it->get<std::string>();
}

Status unknownKey(const JsonPlace &place, const std::string &key) {
  return (place / key).error("unknown key " + moert::quoted(key));
}

Status checkKeys(const Json &object, const JsonPlace &place) {
  for (const auto &[key, value] : object.items()) {
    bool known = key == readByCoresKey || key == kernelsKey ||
                 key == kernelBasisKey || key == classesKey ||
                 key == aliasesKey || key == sharesKey || isPeakKey(key) ||
                 std::ranges::find(textKeys, key) != std::end(textKeys) ||
                 std::ranges::any_of(numberKeys, [&](const NumberKey &n) {
                   return n.key == key;
                 });
    if (!known)
      return unknownKey(place, key);
  }
  return Status::ok();
}

Status parseReadByCores(const Json &object, const JsonPlace &place,
                        DeviceDesc &device) {
  auto list = object.find(readByCoresKey);
  if (list == object.end())
    return Status::ok();
  auto isRate = [](const Json &value) {
    return value.is_number() && value.get<double>() >= 0.01 &&
           value.get<double>() <= 1e6;
  };
  if (!list->is_array() || !std::ranges::all_of(*list, isRate) ||
      list->size() > size_t(device.cores))
    return (place / readByCoresKey)
        .error(fmt::format("\"{}\" must be a list of at most {} numbers from "
                           "0.01 to 1e6, one per core",
                           readByCoresKey, device.cores));
  for (const Json &value : *list)
    device.readBytesPerSecondByCores.push_back(value.get<double>() * kGiga);
  return Status::ok();
}

Status parsePeaks(const Json &object, const JsonPlace &place,
                  DeviceDesc &device) {
  for (const PeakKey &key : peakKeys) {
    Peak &peak = device.*key.peak;
    MOE_ASSIGN_OR_RETURN(peak.source,
                         textOf(object, peakKey(key, sourceSuffix), place));
    std::string basisKey = peakKey(key, basisSuffix);
    MOE_ASSIGN_OR_RETURN(std::string basis, textOf(object, basisKey, place));
    if (!basis.empty()) {
      auto found = basisFromName(basis);
      if (!found)
        return (place / basisKey)
            .error(fmt::format("\"{}\" must be \"measured\", \"simulated\", "
                               "\"derived\" or \"guessed\", found {}",
                               basisKey, moert::quoted(basis)));
      peak.basis = *found;
    }
    std::string name = peakKey(key, efficiencySuffix);
    auto it = object.find(name);
    if (it == object.end())
      continue;
    double value = it->is_number() ? it->get<double>() : 0;
    if (!(value >= 0.01 && value <= 1))
      return (place / name)
          .error(fmt::format("\"{}\" must be a number from 0.01 to 1", name));
    peak.efficiency = value;
  }
  return Status::ok();
}

/// Returns the list of words under `key`; empty without the key.
StatusOr<std::vector<std::string>> wordsOf(const Json &object, const char *key,
                                           const JsonPlace &place) {
  auto list = object.find(key);
  if (list == object.end())
    return std::vector<std::string>();
  constexpr size_t most = 16;
  if (!list->is_array() || list->size() > most ||
      !std::ranges::all_of(*list, [](const Json &j) { return j.is_string(); }))
    return (place / key)
        .error(fmt::format("\"{}\" must be a list of at most {} names", key,
                           most));
  return list->get<std::vector<std::string>>();
}

/// Takes properties that the device does not state itself from a class.
Status takeClass(const std::string &name, DeviceDesc &device) {
  MOE_ASSIGN_OR_RETURN(std::string like, ratesOfClass(name));
  if (!like.empty() && !device.hasKernelList) {
    MOE_ASSIGN_OR_RETURN(std::vector<DeviceDesc> others,
                         parseDevices(shippedText(like), like));
    takeScaledRates(others.front(), device);
  }
  return applyClass(name, device);
}

/// Takes properties that the device does not state itself from its classes.
Status applyClasses(const Json &object, const JsonPlace &place,
                    DeviceDesc &device) {
  MOE_ASSIGN_OR_RETURN(std::vector<std::string> names,
                       wordsOf(object, classesKey, place));
  for (const std::string &name : names) {
    Status status = takeClass(name, device);
    if (!status.isOk())
      return (place / classesKey).error(status.message());
  }
  return Status::ok();
}

/// Returns the list of positive numbers under `key`; empty without the key.
StatusOr<std::vector<double>> numbersOf(const Json &object,
                                        std::string_view key, double unit,
                                        const JsonPlace &place) {
  std::vector<double> numbers;
  auto list = object.find(key);
  if (list == object.end())
    return numbers;
  auto isNumber = [](const Json &value) {
    return value.is_number() && value.get<double>() >= 1e-9 &&
           value.get<double>() <= 1e9;
  };
  if (!list->is_array() || list->size() > mostPoints ||
      !std::ranges::all_of(*list, isNumber))
    return (place / key)
        .error(
            fmt::format("\"{}\" must be a list of at most {} numbers above 0",
                        key, mostPoints));
  for (const Json &value : *list)
    numbers.push_back(value.get<double>() * unit);
  return numbers;
}

StatusOr<moert::KernelRate> parseKernel(const Json &object,
                                        const JsonPlace &place) {
  if (!object.is_object())
    return place.error("a kernel must be a JSON object");
  for (const auto &[key, value] : object.items())
    if (std::ranges::find(kernelKeys, key) == std::end(kernelKeys))
      return unknownKey(place, key);
  moert::KernelRate rate;
  MOE_ASSIGN_OR_RETURN(rate.kernel, textOf(object, "kernel", place));
  MOE_ASSIGN_OR_RETURN(rate.variant, textOf(object, "variant", place));
  MOE_ASSIGN_OR_RETURN(rate.at, numbersOf(object, "at", 1, place));
  MOE_ASSIGN_OR_RETURN(rate.memory, numbersOf(object, "memory", kGiga, place));
  MOE_ASSIGN_OR_RETURN(rate.cache, numbersOf(object, "cache", kGiga, place));
  bool rises = std::ranges::adjacent_find(rate.at, std::greater_equal<>{}) ==
               rate.at.end();
  if (rate.kernel.empty() || rate.at.empty() || !rises ||
      rate.memory.size() != rate.at.size() ||
      (!rate.cache.empty() && rate.cache.size() != rate.at.size()))
    return place.error("a kernel needs \"kernel\", its name, \"at\", rising "
                       "sizes, and as many rates in \"memory\"");
  return rate;
}

Status parseKernels(const Json &object, const JsonPlace &place,
                    DeviceDesc &device) {
  MOE_ASSIGN_OR_RETURN(std::string basis,
                       textOf(object, kernelBasisKey, place));
  if (!basis.empty()) {
    device.kernelBasis = basisFromName(basis).value_or(Basis::Unstated);
    if (device.kernelBasis != Basis::Simulated &&
        device.kernelBasis != Basis::Measured)
      return (place / kernelBasisKey)
          .error(fmt::format("\"{}\" must be \"measured\" or \"simulated\", "
                             "found {}",
                             kernelBasisKey, moert::quoted(basis)));
  }
  auto list = object.find(kernelsKey);
  if (list == object.end())
    return Status::ok();
  device.hasKernelList = true;
  JsonPlace all = place / kernelsKey;
  if (!list->is_array())
    return all.error("\"kernels\" must be a list");
  for (size_t i = 0; i < list->size(); ++i) {
    MOE_ASSIGN_OR_RETURN(moert::KernelRate rate,
                         parseKernel((*list)[i], all / i));
    device.kernels.push_back(std::move(rate));
  }
  return Status::ok();
}

Status parseSharesMemory(const Json &object, const JsonPlace &place,
                         DeviceDesc &device) {
  auto shares = object.find(sharesKey);
  if (shares == object.end())
    return Status::ok();
  auto fail = [&](std::string_view key, std::string_view what) {
    return (place / key).error(fmt::format("\"{}\" {}", key, what));
  };
  if (!shares->is_boolean())
    return fail(sharesKey, "must be true or false");
  device.sharesMemory = shares->get<bool>();
  if (!device.sharesMemory)
    return Status::ok();
  if (device.kind != DeviceKind::Cuda)
    return fail(sharesKey, "is for a cuda device, which then has the memory of "
                           "the cpu");
  for (std::string_view key : ownMemoryKeys)
    if (object.contains(key))
      return fail(key, "is for a device with a memory of its own, and "
                       "\"shares_memory\" is true: the memory is the cpu's");
  return Status::ok();
}

/// Checks that keys do not contradict each other.
Status checkAgreement(const DeviceDesc &device, std::string_view isa,
                      const JsonPlace &place) {
  if (!device.sharesMemory && device.reservedBytes >= device.memoryBytes)
    return place.error(fmt::format("\"reserved_gib\" is {}, but \"memory_gib\""
                                   " is {}: nothing is left to plan with",
                                   double(device.reservedBytes) / kGibibyte,
                                   double(device.memoryBytes) / kGibibyte));
  if (device.kind == DeviceKind::Cuda) {
    if (device.numaNodes > 1 || device.nodeRead.perSecond > 0 ||
        device.nodeLink.perSecond > 0)
      return place.error("\"numa_nodes\", \"node_read_gbps\" and "
                         "\"node_link_gbps\" are for a cpu");
    if (device.sharesMemory && device.link.perSecond > 0)
      return (place / classesKey)
          .error("a class has \"link_gbps\", and \"shares_memory\" is true: "
                 "there is no link to the cpu's memory");
    if (device.arch == 0 ||
        (device.link.perSecond <= 0 && !device.sharesMemory))
      return place.error("a cuda device needs \"arch\" and \"link_gbps\", or "
                         "\"shares_memory\" in place of the link");
    if (device.storage.bytesPerSecond > 0 || device.storage.readsPerSecond > 0)
      return place.error("\"storage_gbps\" and \"storage_kreads\" are for a "
                         "cpu");
    if (!isa.empty())
      return place.error("\"isa\" is for a cpu; a cuda device has \"arch\"");
    return Status::ok();
  }
  if (device.numaNodes == 1 &&
      (device.nodeRead.perSecond > 0 || device.nodeLink.perSecond > 0))
    return place.error("\"node_read_gbps\" and \"node_link_gbps\" are of "
                       "several memory nodes, and \"numa_nodes\" is 1");
  if (device.link.perSecond > 0 || device.linkLatencySeconds > 0 ||
      device.arch != 0)
    return place.error("\"arch\", \"link_gbps\" and \"link_latency_us\" are "
                       "for a cuda device, and this is a cpu");
  return Status::ok();
}

StatusOr<DeviceDesc> parseDevice(const Json &object, const JsonPlace &place) {
  if (!object.is_object())
    return place.error("a device must be a JSON object");
  MOE_RETURN_IF_ERROR(checkKeys(object, place));

  DeviceDesc device;
  MOE_ASSIGN_OR_RETURN(device.model, textOf(object, "model", place));
  MOE_ASSIGN_OR_RETURN(device.title, textOf(object, "title", place));
  MOE_ASSIGN_OR_RETURN(device.source, textOf(object, "source", place));
  MOE_ASSIGN_OR_RETURN(std::string kind, textOf(object, "kind", place));
  if (kind != "cpu" && kind != "cuda")
    return (place / "kind")
        .error("\"kind\" must be \"cpu\" or \"cuda\", found " +
               moert::quoted(kind));
  device.kind = kind == "cpu" ? DeviceKind::Cpu : DeviceKind::Cuda;
  if (device.model.empty())
    device.model = kind;

  MOE_ASSIGN_OR_RETURN(std::string isa, textOf(object, "isa", place));
  if (device.kind == DeviceKind::Cuda) {
    device.isa = moek::Isa::Cuda;
  } else {
    auto found = moek::isaFromName(isa);
    if (!found || *found == moek::Isa::Cuda)
      return (place / "isa")
          .error("\"isa\" of a cpu must be " + moek::cpuIsaNames() +
                 ", found " + moert::quoted(isa));
    device.isa = *found;
  }

  MOE_RETURN_IF_ERROR(parseSharesMemory(object, place, device));
  for (const NumberKey &number : numberKeys) {
    JsonPlace member = place / number.key;
    auto it = object.find(number.key);
    if (it == object.end()) {
      if (number.required &&
          !(device.sharesMemory && isOfOwnMemory(number.key)))
        return place.error(fmt::format("\"{}\" is missing", number.key));
      continue;
    }
    if (!it->is_number())
      return member.error(fmt::format("\"{}\" must be a number", number.key));
    double value = it->get<double>();
    if (!(value >= number.least && value <= number.most))
      return member.error(fmt::format("\"{}\" is {}, expected {} to {}",
                                      number.key, value, number.least,
                                      number.most));
    if (number.whole && value != std::floor(value))
      return member.error(fmt::format("\"{}\" is {}, expected a whole number",
                                      number.key, value));
    number.set(device, value * number.unit);
  }
  MOE_RETURN_IF_ERROR(parseReadByCores(object, place, device));
  MOE_RETURN_IF_ERROR(parsePeaks(object, place, device));
  MOE_RETURN_IF_ERROR(parseKernels(object, place, device));
  MOE_RETURN_IF_ERROR(wordsOf(object, aliasesKey, place).status());
  MOE_RETURN_IF_ERROR(applyClasses(object, place, device));
  MOE_RETURN_IF_ERROR(checkAgreement(device, isa, place));
  return device;
}
} // namespace

StatusOr<std::vector<DeviceDesc>> parseDevices(std::string_view json,
                                               std::string_view name) {
  // Nesting: a target, its list, a device, its list of kernels, a kernel, its
  // list.
  MOE_ASSIGN_OR_RETURN(Json root, parseJson(name, json, /*depth=*/6));
  JsonPlace place(name, json);
  std::vector<DeviceDesc> devices;
  if (!root.is_object() || !root.contains("devices")) {
    MOE_ASSIGN_OR_RETURN(DeviceDesc device, parseDevice(root, place));
    devices.push_back(std::move(device));
    return devices;
  }
  for (const auto &[key, value] : root.items())
    if (key != "devices" && key != "name" && key != aliasesKey)
      return unknownKey(place, key);
  MOE_RETURN_IF_ERROR(wordsOf(root, aliasesKey, place).status());
  const Json &list = root["devices"];
  place = place / "devices";
  if (!list.is_array())
    return place.error("\"devices\" must be an array");
  for (size_t i = 0; i < list.size(); ++i) {
    MOE_ASSIGN_OR_RETURN(DeviceDesc device, parseDevice(list[i], place / i));
    devices.push_back(std::move(device));
  }
  auto cpus = std::ranges::count(devices, DeviceKind::Cpu, &DeviceDesc::kind);
  auto shares = std::ranges::find(devices, true, &DeviceDesc::sharesMemory);
  if (shares != devices.end() && cpus > 1)
    return (place / size_t(shares - devices.begin()) / sharesKey)
        .error(fmt::format("\"{}\" is for a machine with one cpu, whose memory "
                           "it is, and there are {}",
                           sharesKey, cpus));
  return devices;
}

TargetDesc joinDevices(std::string name, std::vector<DeviceDesc> devices) {
  std::ranges::stable_sort(devices, std::greater<>{}, &DeviceDesc::kind);
  TargetDesc target{std::move(name), std::move(devices), {}};
  int cpus = 0, gpus = 0;
  for (DeviceDesc &device : target.devices)
    device.name = device.kind == DeviceKind::Cpu ? fmt::format("cpu{}", cpus++)
                                                 : fmt::format("gpu{}", gpus++);
  // The first CPU is the host.
  auto host =
      std::ranges::find(target.devices, DeviceKind::Cpu, &DeviceDesc::kind);
  for (DeviceDesc &device : target.devices)
    if (device.sharesMemory && host != target.devices.end()) {
      device.memoryBytes = host->memoryBytes;
      device.reservedBytes = host->reservedBytes;
    }
  return target;
}

StatusOr<TargetDesc> makeTarget(std::string name,
                                std::vector<DeviceDesc> devices) {
  TargetDesc target = joinDevices(std::move(name), std::move(devices));
  auto cpus =
      std::ranges::count(target.devices, DeviceKind::Cpu, &DeviceDesc::kind);
  if (cpus != 1)
    return Status(
        StatusCode::Usage,
        fmt::format("target {}: expected exactly one CPU, found {}; join "
                    "devices as in 4090+xeon",
                    target.name, cpus));
  return target;
}

StatusOr<TargetDesc> loadTargetFile(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(std::string text,
                       moert::readInput(path, kMostTargetBytes));
  return parseTarget(text, path);
}

StatusOr<TargetDesc> parseTarget(const std::string &text,
                                 const std::string &path) {
  MOE_ASSIGN_OR_RETURN(std::vector<DeviceDesc> devices,
                       parseDevices(text, moert::inputName(path)));
  std::string name = moert::inputName(path);
  name = name.substr(name.find_last_of('/') + 1);
  name = name.substr(0, name.find_last_of('.'));
  auto cpus = std::ranges::count(devices, DeviceKind::Cpu, &DeviceDesc::kind);
  if (cpus <= 1)
    return makeTarget(std::move(name), std::move(devices));
  // Several CPUs share one machine's cores; the first is the host.
  TargetDesc target = joinDevices(std::move(name), std::move(devices));
  auto first =
      std::ranges::find(target.devices, DeviceKind::Cpu, &DeviceDesc::kind);
  std::rotate(first, first + 1, target.devices.end());
  return target;
}

namespace {
/// Rounds to four digits; more would be noise.
double rounded(double value) {
  if (!(value > 0))
    return 0;
  double unit = std::pow(10, 3 - std::floor(std::log10(value)));
  return std::round(value * unit) / unit;
}

Json kernelJson(const moert::KernelRate &rate) {
  Json object = {{"kernel", rate.kernel}};
  if (!rate.variant.empty())
    object["variant"] = rate.variant;
  object["at"] = rate.at;
  auto add = [&](const char *key, const std::vector<double> &rates) {
    for (double value : rates)
      object[key].push_back(rounded(value / kGiga));
  };
  add("memory", rate.memory);
  add("cache", rate.cache);
  return object;
}
} // namespace

std::string toJson(const TargetDesc &target) {
  Json list = Json::array();
  for (const DeviceDesc &device : target.devices) {
    Json object;
    object["name"] = device.name;
    object["model"] = device.model;
    object["title"] = device.title;
    object["kind"] = device.kind == DeviceKind::Cpu ? "cpu" : "cuda";
    if (device.kind == DeviceKind::Cpu)
      object["isa"] = std::string(moek::isaName(device.isa));
    if (device.sharesMemory)
      object[sharesKey] = true;
    for (const NumberKey &number : numberKeys)
      if (double value = number.get(device) / number.unit;
          value != 0 && !(device.sharesMemory && isOfOwnMemory(number.key))) {
        if (value == std::floor(value))
          object[number.key] = int64_t(value);
        else
          object[number.key] = value;
      }
    for (double rate : device.readBytesPerSecondByCores)
      object[readByCoresKey].push_back(rate / kGiga);
    for (const PeakKey &key : peakKeys) {
      const Peak &peak = device.*key.peak;
      if (peak.efficiency > 0)
        object[peakKey(key, efficiencySuffix)] = peak.efficiency;
      if (!peak.source.empty())
        object[peakKey(key, sourceSuffix)] = peak.source;
      if (peak.basis != Basis::Unstated)
        object[peakKey(key, basisSuffix)] = std::string(basisName(peak.basis));
    }
    if (!device.source.empty())
      object["source"] = device.source;
    if (device.hasKernelList)
      object[kernelsKey] = Json::array();
    if (device.kernelBasis == Basis::Simulated)
      object[kernelBasisKey] = std::string(basisName(device.kernelBasis));
    for (const moert::KernelRate &rate : device.kernels)
      object[kernelsKey].push_back(kernelJson(rate));
    list.push_back(std::move(object));
  }
  Json root;
  root["name"] = target.name;
  root["devices"] = std::move(list);
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace moec
