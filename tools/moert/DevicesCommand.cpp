// moert devices: lists the devices on which plans can run here.
#include "kernels/Registry.h"
#include "runtime/base/ControlGroups.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"
#include "runtime/base/Topology.h"
#include "runtime/device/cpu/Calibrate.h"
#include "runtime/device/cuda/CudaContext.h"
#include "runtime/device/cuda/PciLink.h"
#include "tools/common/Json.h"
#include "tools/common/Output.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Options.h"

#include <fmt/format.h>
#include <functional>
#include <map>
#include <memory>
#include <set>

namespace moert {

namespace {
using Json = nlohmann::ordered_json;

struct DevicesFlags {
  std::string cuda = CudaDriver::kLibrary;
  bool json = false;
};

/// Returns the kinds of cores that this process may use, the fastest first.
Json coreKinds(const Topology &topology) {
  std::map<int, std::set<int>, std::greater<>> kinds;
  for (const CpuPlace &place : topology)
    kinds[place.capacity].insert(place.core);
  Json list = Json::array();
  for (const auto &[capacity, cores] : kinds)
    list.push_back({{"cores", cores.size()},
                    {"capacity", double(capacity) / kFullCapacity}});
  return list;
}

Json describeCpu() {
  MemoryLimit memory = hostMemoryLimit();
  Topology topology = readTopology(allowedCpus());
  return {{"title", escaped(cpuModelName())},
          {"isa", moek::isaName(bestHostIsa())},
          {"cores", physicalCores().size()},
          {"core_kinds", coreKinds(topology)},
          {"cpus", topology.size()},
          {"cpu_quota", cpuQuota()},
          {"memory_nodes", countMemoryNodes()},
          {"memory_bytes", memory.bytes},
          {"limit", memory.isControlGroup ? "control group" : "machine"}};
}

/// An error that prevents the description of a GPU is stored as "why_not".
Json describeGpu(const CudaDriver &driver, int ordinal) {
  Json object = {{"number", ordinal}};
  auto describe = [&]() -> Status {
    MOE_ASSIGN_OR_RETURN(CudaGpu gpu, driver.describe(ordinal));
    object["title"] = escaped(gpu.name);
    object["arch"] = gpu.arch;
    object["multiprocessors"] = gpu.multiprocessors;
    object["memory_bytes"] = gpu.memoryBytes;
    object["link"] = pciLink(gpu.pciAddress);
    MOE_ASSIGN_OR_RETURN(std::unique_ptr<CudaContext> context,
                         CudaContext::enter(driver, gpu.handle));
    MOE_ASSIGN_OR_RETURN(uint64_t free, context->freeBytes());
    object["free_bytes"] = free;
    return Status::ok();
  };
  if (Status status = describe(); !status.isOk())
    object["why_not"] = moetool::fullMessage(status);
  return object;
}

Json describeAll(const DevicesFlags &flags) {
  Json object = {{"cpu", describeCpu()}, {"gpus", Json::array()}};
  StatusOr<CudaDriver> driver = CudaDriver::load(flags.cuda);
  if (!driver) {
    object["why_no_gpu"] = driver.status().message();
    return object;
  }
  int version = 0;
  if (driver->api().cuDriverGetVersion(&version) == cu::kSuccess)
    object["cuda"] = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  for (int i = 0; i < driver->deviceCount(); ++i)
    object["gpus"].push_back(describeGpu(*driver, i));
  return object;
}

/// Returns text such as "24 cores (8, and 16 at 0.61 of their speed), 32 CPUs".
std::string coresText(const Json &cpu) {
  std::string text = counted(cpu["cores"].get<uint64_t>(), "core");
  if (const Json &kinds = cpu["core_kinds"]; kinds.size() > 1) {
    text += fmt::format(" ({}", kinds[0]["cores"].get<uint64_t>());
    for (size_t i = 1; i < kinds.size(); ++i)
      text += fmt::format(", and {} at {:.2f} of their speed",
                          kinds[i]["cores"].get<uint64_t>(),
                          kinds[i]["capacity"].get<double>());
    text += ")";
  }
  if (cpu["cpus"] != cpu["cores"])
    text += ", " + counted(cpu["cpus"].get<uint64_t>(), "CPU");
  if (double quota = cpu["cpu_quota"].get<double>(); quota > 0)
    text += fmt::format(", a quota of {:.3g} CPUs", quota);
  return text;
}

void printDevices(const Json &devices) {
  auto bytes = [](const Json &value) {
    return humanBytes(value.get<double>());
  };
  const Json &cpu = devices["cpu"];
  moetool::print("cpu0: {}: {}, {}, {} of memory{}\n",
                 cpu["title"].get<std::string>(), coresText(cpu),
                 cpu["isa"].get<std::string>(), bytes(cpu["memory_bytes"]),
                 cpu["limit"] == "machine" ? "" : " (of its control group)");
  for (const Json &gpu : devices["gpus"]) {
    int number = gpu["number"].get<int>();
    if (gpu.contains("title")) {
      std::string link = gpu["link"].get<std::string>();
      moetool::print("gpu{}: {}: sm_{}, {}{}, {} of memory{}\n", number,
                     gpu["title"].get<std::string>(), gpu["arch"].get<int>(),
                     counted(gpu["multiprocessors"].get<uint64_t>(), "SM"),
                     link.empty() ? "" : ", " + link,
                     bytes(gpu["memory_bytes"]),
                     gpu.contains("free_bytes")
                         ? ", of which " + bytes(gpu["free_bytes"]) + " free"
                         : "");
    }
    if (gpu.contains("why_not"))
      moetool::print("gpu{}: {}\n", number, gpu["why_not"].get<std::string>());
  }
  if (devices.contains("cuda"))
    moetool::print("driver for CUDA {}\n", devices["cuda"].get<std::string>());
  if (devices.contains("why_no_gpu"))
    moetool::print("no GPU: {}\n", devices["why_no_gpu"].get<std::string>());
}

Status showDevices(const DevicesFlags &flags) {
  Json devices = describeAll(flags);
  if (flags.json)
    moetool::printDocument(devices);
  else
    printDevices(devices);
  return Status::ok();
}
} // namespace

void addDevicesCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<DevicesFlags>();
  CLI::App *command = tool.command(
      "devices", "List this machine's CPU and GPUs, as plans can run on them",
      [flags] { return showDevices(*flags); });
  moetool::addOption(*command, rows::cuda, flags->cuda);
  moetool::addOption(*command, rows::json, flags->json);
}

} // namespace moert
