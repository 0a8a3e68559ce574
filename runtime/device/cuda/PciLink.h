//===- PciLink.h - Speed and width of a PCIe link ---------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_PCILINK_H
#define MOE_RUNTIME_DEVICE_CUDA_PCILINK_H

#include <string>

namespace moert {

/// Returns the speed and width of the link of the device at `address`
/// ("0000:01:00.0"), such as "PCIe 16.0 GT/s x16", or "" if the system does not
/// report it. The speed is the present one, which is lower while the device
/// idles.
std::string pciLink(std::string address,
                    const std::string &folder = "/sys/bus/pci/devices");

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_PCILINK_H
