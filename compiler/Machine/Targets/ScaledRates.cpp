#include "compiler/Machine/Targets/ScaledRates.h"

#include <algorithm>
#include <fmt/format.h>

using moert::KernelRate;

namespace moec {

namespace {
/// The unit that a rate counts (kernels/KernelRate.h).
enum class Unit { Bytes, Operations, Calls };

/// Bytes of activations, of which little is read, follow the operations.
Unit unitOf(const KernelRate &rate) {
  if (rate.variant.ends_with("call"))
    return Unit::Calls;
  bool isBytes =
      rate.kernel.starts_with("gemm_") || rate.variant.ends_with("bytes");
  return isBytes ? Unit::Bytes : Unit::Operations;
}
} // namespace

void takeScaledRates(const DeviceDesc &other, DeviceDesc &device) {
  double memory = device.read.perSecond / other.read.perSecond;
  double compute = std::min(device.int8.perSecond / other.int8.perSecond,
                            device.float32.perSecond / other.float32.perSecond);
  auto scaled = [&](Unit unit, double perSecond) {
    if (unit == Unit::Calls)
      return perSecond;
    if (unit == Unit::Operations)
      return perSecond * compute;
    double reading = std::min(perSecond / other.read.perSecond, 1.0);
    return perSecond / (reading / memory + (1 - reading) / compute);
  };
  device.kernels = other.kernels;
  for (KernelRate &rate : device.kernels)
    for (std::vector<double> *rates : {&rate.memory, &rate.cache})
      for (double &perSecond : *rates)
        perSecond = scaled(unitOf(rate), perSecond);
  device.hasKernelList = true;
  device.kernelBasis = other.kernelBasis;
  if (device.overheads.instruction <= 0)
    device.overheads.instruction = other.overheads.instruction;
  device.source += fmt::format("; kernels: the {}'s rates, scaled by "
                               "bandwidth and operations",
                               other.model);
}

} // namespace moec
