//===- Image.cpp ----------------------------------------------------------===//

#include "test/softgpu/Image.h"

#include "test/softgpu/Ptx.h"
#include "test/softgpu/PtxLexer.h"

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <string>

namespace softgpu {

using moert::Status;
using moert::StatusCode;

static moert::StatusOr<Image> identifyCubin(std::string_view bytes) {
  constexpr uint16_t kCuda = 190;
  constexpr uint8_t kOldAbi = 0x33, kAbi = 0x41;
  uint16_t machine;
  uint32_t flags;
  if (bytes.size() < 64)
    return Status(StatusCode::InvalidFile, "the image is a cut-off ELF file");
  std::memcpy(&machine, bytes.data() + 18, sizeof(machine));
  std::memcpy(&flags, bytes.data() + 48, sizeof(flags));
  uint8_t abi = uint8_t(bytes[7]);
  if (machine != kCuda || (abi != kOldAbi && abi != kAbi))
    return Status(
        StatusCode::InvalidFile,
        fmt::format("an ELF file of machine {}, ABI {:#x}, not a cubin",
                    machine, abi));
  Image image;
  image.kind = ImageKind::Cubin;
  // Since CUDA 13 the architecture is in the second byte.
  image.arch = int(abi == kAbi ? flags >> 8 & 0xFFFF : flags & 255);
  return image;
}

static moert::StatusOr<Image> identifyPtx(std::string_view bytes) {
  Image image;
  try {
    PtxLexer lexer(bytes);
    while (lexer.peek().kind != PtxToken::End && !image.arch) {
      PtxToken token = lexer.take();
      if (token.is(".version")) {
        std::string version(lexer.peek().text);
        image.versionMajor = std::atoi(version.c_str());
        size_t dot = version.find('.');
        image.versionMinor =
            dot == std::string::npos ? 0 : std::atoi(version.c_str() + dot + 1);
      } else if (token.is(".target") && lexer.peek().text.starts_with("sm_")) {
        std::string target(lexer.peek().text.substr(3));
        char *end = nullptr;
        image.arch = int(std::strtol(target.c_str(), &end, 10));
        image.suffix = *end;
      } else if (!image.versionMajor) {
        break; // PTX begins with .version, so this is not PTX.
      }
    }
  } catch (const PtxError &error) {
    return Status(StatusCode::InvalidFile,
                  fmt::format("PTX line {}: {}", error.line, error.message));
  }
  if (!image.arch || !image.versionMajor)
    return Status(StatusCode::InvalidFile,
                  "the image is neither a cubin nor PTX");
  return image;
}

moert::StatusOr<Image> identifyImage(std::string_view bytes) {
  return bytes.starts_with("\x7f"
                           "ELF")
             ? identifyCubin(bytes)
             : identifyPtx(bytes);
}

/// Returns the CUDA version that introduced a PTX version: 13.0 for 9.0, 12.0
/// for 8.0, 11.0 for 7.0; after 8.5 PTX's minor is one less than CUDA's.
static int cudaOf(const Image &image) {
  int minor = image.versionMinor;
  if (image.versionMajor == 8 && minor > 5)
    ++minor;
  return (image.versionMajor + 4) * 1000 + minor * 10;
}

bool runsOn(const Image &image, int arch, int driverVersion) {
  if (image.kind == ImageKind::Cubin)
    return image.arch / 10 == arch / 10 && image.arch <= arch;
  if (cudaOf(image) > driverVersion)
    return false;
  if (image.suffix == 'a')
    return image.arch == arch;
  if (image.suffix == 'f')
    return image.arch / 10 == arch / 10 && image.arch <= arch;
  return image.arch <= arch;
}

int chooseImage(std::span<const Image> images, int arch, int driverVersion) {
  int best = -1;
  for (size_t i = 0; i < images.size(); ++i) {
    if (!runsOn(images[i], arch, driverVersion))
      continue;
    if (best < 0) {
      best = int(i);
      continue;
    }
    const Image &held = images[size_t(best)];
    bool isCubin = images[i].kind == ImageKind::Cubin,
         heldCubin = held.kind == ImageKind::Cubin;
    if (isCubin != heldCubin ? isCubin : images[i].arch > held.arch)
      best = int(i);
  }
  return best;
}

} // namespace softgpu
