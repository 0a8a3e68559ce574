//===- Image.h - Chooses the image that a driver would load -----*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_IMAGE_H
#define MOE_TEST_SOFTGPU_IMAGE_H

#include "runtime/base/Status.h"

#include <span>
#include <string_view>

namespace softgpu {

enum class ImageKind { Cubin, Ptx };

struct Image {
  ImageKind kind = ImageKind::Ptx;
  int arch = 0;    ///< 89 stands for sm_89.
  char suffix = 0; ///< PTX only: 'a' for this arch alone, 'f' for its family.
  int versionMajor = 0, versionMinor = 0; ///< Version of the PTX.
};

/// Identifies an image by a cubin's ELF header or by PTX's directives.
moert::StatusOr<Image> identifyImage(std::string_view bytes);

/// Whether a driver (cuDriverGetVersion: 13000 for CUDA 13.0) loads `image` on
/// a GPU of this compute capability. A cubin runs on its major architecture
/// with an equal or higher minor; PTX runs on every equal or higher one, if the
/// driver is at least as new.
bool runsOn(const Image &image, int arch, int driverVersion);

/// Returns the index of the best image that runs: the highest cubin, else the
/// highest PTX. -1: none runs.
int chooseImage(std::span<const Image> images, int arch, int driverVersion);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_IMAGE_H
