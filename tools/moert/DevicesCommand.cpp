// moert devices: lists the devices on which plans can run here.
#include "kernels/Registry.h"
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
#include <memory>

namespace moert {

namespace {
using Json = nlohmann::ordered_json;

struct DevicesFlags {
  std::string cuda = CudaDriver::kLibrary;
  bool json = false;
};

Json describeCpu() {
  MemoryLimit memory = hostMemoryLimit();
  return {{"title", escaped(cpuModelName())},
          {"isa", moek::isaName(bestHostIsa())},
          {"cores", physicalCores().size()},
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

void printDevices(const Json &devices) {
  auto bytes = [](const Json &value) {
    return humanBytes(value.get<double>());
  };
  const Json &cpu = devices["cpu"];
  moetool::print("cpu0: {}: {}, {}, {} of memory{}\n",
                 cpu["title"].get<std::string>(),
                 counted(cpu["cores"].get<uint64_t>(), "core"),
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
