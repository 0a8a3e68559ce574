#include "runtime/device/cuda/PciLink.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fstream>

namespace moert {

namespace {
std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool startsWithDigit(const std::string &text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9';
}
} // namespace

std::string pciLink(std::string address, const std::string &folder) {
  if (address.empty())
    return "";
  // The driver writes hex digits in upper case, the system in lower case.
  std::ranges::transform(address, address.begin(),
                         [](unsigned char c) { return char(std::tolower(c)); });
  std::string device = folder + "/" + address;
  std::string speed = firstLine(device + "/current_link_speed");
  std::string width = firstLine(device + "/current_link_width");
  // The link is unknown if the file is missing or contains "Unknown".
  if (!startsWithDigit(speed) || !startsWithDigit(width))
    return "";
  // "16.0 GT/s PCIe" since Linux 5.6, "16 GT/s" before.
  return escaped(
      fmt::format("PCIe {} x{}", speed.substr(0, speed.find(" PCIe")), width));
}

} // namespace moert
