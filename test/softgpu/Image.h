//===- Image.h - Which of a plan's images a driver takes --------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_IMAGE_H
#define MOE_TEST_SOFTGPU_IMAGE_H

#include "runtime/base/Status.h"

#include <span>
#include <string_view>

namespace softgpu {

enum class ImageKind { Cubin, Ptx };

struct Image {
  ImageKind kind = ImageKind::Ptx;
  int arch = 0;    ///< 89 for sm_89.
  char suffix = 0; ///< Of PTX: 'a' (this architecture only), 'f' (its family).
  int versionMajor = 0, versionMinor = 0; ///< Of PTX.
};

/// What the bytes of an image are for: a cubin's ELF header, PTX's directives.
moert::StatusOr<Image> identifyImage(std::string_view bytes);

/// Whether a driver (cuDriverGetVersion: 13000 for CUDA 13.0) loads `image` on
/// a GPU of this compute capability. A cubin runs on its major architecture at
/// an equal or higher minor; PTX on every equal or higher one, if the driver is
/// as new.
bool runsOn(const Image &image, int arch, int driverVersion);

/// The image that is best of those that run: a cubin, the highest; else PTX,
/// the highest. -1: none runs.
int chooseImage(std::span<const Image> images, int arch, int driverVersion);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_IMAGE_H
