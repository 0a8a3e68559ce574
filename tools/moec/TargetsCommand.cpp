#include "compiler/Targets/Target.h"
#include "tools/moec/Commands.h"

#include <fmt/format.h>
#include <memory>

using moert::Status;

namespace moec {

namespace {
void printTarget(const TargetDesc &target) {
  for (const DeviceDesc &device : target.devices) {
    fmt::print("{}: {}\n", device.name,
               device.title.empty() ? device.model : device.title);
    fmt::print("  {} {}, {:.1f} GiB of memory, {:.1f} GiB of it reserved\n",
               device.cores, device.kind == DeviceKind::Cuda ? "SMs" : "cores",
               double(device.memoryBytes) / (1ull << 30),
               double(device.reservedBytes) / (1ull << 30));
    fmt::print(
        "  kernels: {}; read {:.1f} GB/s, int8 {:.2f} TOPS, float {:.2f} "
        "TFLOPS\n",
        moek::isaName(device.isa), device.readBytesPerSecond / 1e9,
        device.int8OpsPerSecond / 1e12, device.floatOpsPerSecond / 1e12);
    if (device.linkBytesPerSecond > 0)
      fmt::print("  link to the host: {:.1f} GB/s, {:.0f} us\n",
                 device.linkBytesPerSecond / 1e9,
                 device.linkLatencySeconds * 1e6);
  }
}
} // namespace

void addTargetsCommand(moetool::Tool &tool) {
  struct Options {
    std::string name;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "targets", "List machine descriptions, or show one", [options] {
        if (options->name.empty()) {
          for (const std::string &name : targetNames())
            fmt::print("{}\n", name);
          return Status::ok();
        }
        MOE_ASSIGN_OR_RETURN(TargetDesc target, resolveTarget(options->name));
        if (options->json)
          fmt::print("{}", toJson(target));
        else
          printTarget(target);
        return Status::ok();
      });
  command->add_option("name", options->name,
                      "A description, or several joined: 4090+xeon, native");
  command->add_flag("--json", options->json,
                    "As a file to edit and pass to compile --target-file");
}

} // namespace moec
