//===- CudaPinnable.h - Memory that drivers pin -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAPINNABLE_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAPINNABLE_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <span>

namespace moert {

/// Makes whole pages of a weight file's mapping such that a driver pins them,
/// at the same address and with the same contents: drivers refuse pages that
/// are not writable. A copy of the file (`isCopy`) only becomes writable, so
/// that its pages stay on their memory nodes and as large as they are. A
/// mapping is replaced by private memory, which is copied on all cores; pinned
/// pages would occupy memory anyway. Fails with DoesNotFit or Io.
Status makePinnable(std::span<std::byte> pages, bool isCopy);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAPINNABLE_H
