//===- PciLink.h - How a device is attached ---------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_PCILINK_H
#define MOE_RUNTIME_DEVICE_CUDA_PCILINK_H

#include <string>

namespace moert {

/// "PCIe 16.0 GT/s x16": the present speed, which is lower while the device
/// idles, and width of the link of the device at `address` ("0000:01:00.0"); ""
/// where the system does not tell.
std::string pciLink(std::string address,
                    const std::string &folder = "/sys/bus/pci/devices");

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_PCILINK_H
