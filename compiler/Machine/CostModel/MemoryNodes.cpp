#include "compiler/Machine/CostModel/MemoryNodes.h"

#include <algorithm>

namespace moec {

namespace {
double nodeRead(const DeviceDesc &cpu) {
  return cpu.nodeRead.perSecond > 0
             ? cpu.nodeRead.planned(Peak::kAssumedRead)
             : cpu.read.planned(Peak::kAssumedRead) / cpu.numaNodes;
}

/// Returns the read rate for interleaved pages. A core reads pages of its own
/// node and of other nodes one after the other, so their times add up.
double interleavedRead(const DeviceDesc &cpu) {
  double nodes = cpu.numaNodes;
  double own = cpu.read.planned(Peak::kAssumedRead) / nodes;
  double others = std::min(own, cpu.nodeLink.planned(Peak::kAssumedRead));
  return nodes / (1 / nodes / own + (nodes - 1) / nodes / others);
}
} // namespace

std::optional<DeviceDesc> withNodes(const DeviceDesc &cpu, NodeUse use) {
  DeviceDesc used = cpu;
  used.nodeUse = use;
  if (use == NodeUse::Any || use == NodeUse::Split)
    return used;
  if (cpu.hasKernelList || !cpu.kernels.empty())
    return std::nullopt;
  if (use == NodeUse::Interleaved) {
    if (cpu.nodeLink.perSecond <= 0)
      return std::nullopt;
    used.read.perSecond = interleavedRead(cpu);
    used.read.efficiency = 1;
    return used;
  }
  int nodes = cpu.numaNodes;
  used.cores = std::max(1, cpu.cores / nodes);
  used.memoryBytes /= uint64_t(nodes);
  used.reservedBytes /= uint64_t(nodes);
  used.read.perSecond = nodeRead(cpu);
  used.read.efficiency = 1;
  for (Peak *peak : {&used.int8, &used.float32, &used.bf16, &used.unpack})
    peak->perSecond /= nodes;
  used.readBytesPerSecondByCores.clear();
  return used;
}

} // namespace moec
