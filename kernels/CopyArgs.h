//===- CopyArgs.h - What a copy between devices receives --------*- C++ -*-===//

#ifndef MOE_KERNELS_COPYARGS_H
#define MOE_KERNELS_COPYARGS_H

#include <cstdint>

namespace moek {

/// Rows of any encoding; both ends are addresses that this device reaches.
struct CopyArgs {
  const uint8_t *x; ///< [T * tokenBytes + fixedBytes]
  uint8_t *out;     ///< Same shape as x.
  int64_t tokenBytes, fixedBytes;
};

} // namespace moek

#endif // MOE_KERNELS_COPYARGS_H
