#include "tools/moec/PrintTarget.h"

#include "tools/common/Output.h"

namespace moec {

void printTarget(const TargetDesc &target) {
  for (const DeviceDesc &device : target.devices) {
    moetool::print("{}: {}\n", device.name,
                   device.title.empty() ? device.model : device.title);
    moetool::print("  {} {}, {:.1f} GiB of memory, {:.1f} GiB of it reserved\n",
                   device.cores,
                   device.kind == DeviceKind::Cuda ? "SMs" : "cores",
                   double(device.memoryBytes) / (1ull << 30),
                   double(device.reservedBytes) / (1ull << 30));
    moetool::print(
        "  kernels: {}; read {:.1f} GB/s, int8 {:.2f} TOPS, float {:.2f} "
        "TFLOPS",
        moek::isaName(device.isa), device.readBytesPerSecond / 1e9,
        device.int8OpsPerSecond / 1e12, device.floatOpsPerSecond / 1e12);
    if (device.bf16OpsPerSecond > 0)
      moetool::print(", bf16 {:.2f} TFLOPS", device.bf16OpsPerSecond / 1e12);
    moetool::print("\n");
    if (!device.readBytesPerSecondByCores.empty()) {
      moetool::print("  read by cores:");
      for (double rate : device.readBytesPerSecondByCores)
        moetool::print(" {:.1f}", rate / 1e9);
      moetool::print(" GB/s\n");
    }
    if (device.l2Bytes > 0)
      moetool::print("  caches: {} KiB, {} KiB, {} KiB; {} NUMA {}\n",
                     device.l1Bytes >> 10, device.l2Bytes >> 10,
                     device.l3Bytes >> 10, device.numaNodes,
                     device.numaNodes == 1 ? "node" : "nodes");
    if (device.linkBytesPerSecond > 0)
      moetool::print("  link to the host: {:.1f} GB/s, {:.0f} us\n",
                     device.linkBytesPerSecond / 1e9,
                     device.linkLatencySeconds * 1e6);
    if (!device.source.empty())
      moetool::print("  source: {}\n", device.source);
  }
}

} // namespace moec
