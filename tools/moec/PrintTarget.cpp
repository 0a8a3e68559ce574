#include "tools/moec/PrintTarget.h"

#include "tools/common/Output.h"

namespace moec {

namespace {
/// Prints a peak rate, the fraction of it that kernels are assumed to reach,
/// and the source of the figures.
void printPeak(const char *name, const Peak &peak, double unit,
               const char *unitName, double assumed, bool measured) {
  if (peak.perSecond <= 0)
    return;
  double planned = peak.planned(assumed);
  moetool::print("    {:<6} {:.4g} {}", name, peak.perSecond / unit, unitName);
  if (!measured)
    moetool::print(" x {:.0f} % ({}) = {:.4g} {}",
                   100 * planned / peak.perSecond,
                   peak.efficiency <= 0            ? "assumed"
                   : peak.basis == Basis::Unstated ? "stated"
                                                   : basisName(peak.basis),
                   planned / unit, unitName);
  if (!peak.source.empty())
    moetool::print("; {}", peak.source);
  moetool::print("\n");
}

void printRates(const DeviceDesc &device) {
  bool isSimulated = device.kernelBasis == Basis::Simulated;
  bool measured = !device.kernels.empty() && !isSimulated;
  if (isSimulated)
    moetool::print("  plans use {} simulated kernel rates, and for other "
                   "kernels peak rates times an assumed efficiency\n",
                   device.kernels.size());
  else if (measured)
    moetool::print(
        "  plans use {} measured kernel rates and overheads of {:.2g} us per "
        "step and {:.2g} us per barrier, and:\n",
        device.kernels.size(), device.overheads.step * 1e6,
        device.overheads.barrier * 1e6);
  else
    moetool::print("  no kernel was measured: plans use peak rates times an "
                   "assumed efficiency\n");
  double tera = 1e12, giga = 1e9, some = Peak::kAssumed;
  printPeak("read", device.read, giga, "GB/s", Peak::kAssumedRead, measured);
  printPeak("int8", device.int8, tera, "TOPS", some, measured);
  printPeak("float", device.float32, tera, "TFLOPS", some, measured);
  printPeak("bf16", device.bf16, tera, "TFLOPS", some, measured);
  printPeak("unpack", device.unpack, giga, "G weights/s", some, measured);
  printPeak("link", device.link, giga, "GB/s", Peak::kAssumedRead, measured);
}
} // namespace

void printTarget(const TargetDesc &target) {
  for (const DeviceDesc &device : target.devices) {
    moetool::print("{}: {}\n", device.name,
                   device.title.empty() ? device.model : device.title);
    const char *cores = device.kind == DeviceKind::Cuda ? "SMs" : "cores";
    if (device.sharesMemory)
      moetool::print("  {} {}; its memory is that of the CPU: one budget, and "
                     "weights stay where they are\n",
                     device.cores, cores);
    else
      moetool::print(
          "  {} {}, {:.1f} GiB of memory, {:.1f} GiB of it reserved\n",
          device.cores, cores, double(device.memoryBytes) / (1ull << 30),
          double(device.reservedBytes) / (1ull << 30));
    moetool::print(
        "  kernels: {}; read {:.1f} GB/s, int8 {:.2f} TOPS, float {:.2f} "
        "TFLOPS",
        moek::isaName(device.isa), device.read.perSecond / 1e9,
        device.int8.perSecond / 1e12, device.float32.perSecond / 1e12);
    if (device.bf16.perSecond > 0)
      moetool::print(", bf16 {:.2f} TFLOPS", device.bf16.perSecond / 1e12);
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
    if (device.link.perSecond > 0)
      moetool::print("  link to the host: {:.1f} GB/s, {:.0f} us\n",
                     device.link.perSecond / 1e9,
                     device.linkLatencySeconds * 1e6);
    if (device.sharesMemory)
      moetool::print("  hand-over to the host: {:.0f} us\n",
                     device.linkLatencySeconds * 1e6);
    printRates(device);
    if (!device.source.empty())
      moetool::print("  source: {}\n", device.source);
  }
}

} // namespace moec
