//===- GemmFns.h - Declarations of all gemm functions -----------*- C++ -*-===//

#ifndef MOE_KERNELS_GEMMFNS_H
#define MOE_KERNELS_GEMMFNS_H

#include "kernels/Types.h"

namespace moek {

#define MOE_GEMM(name, format, encoding, layout, isa, min, max, panel)         \
  void name(const uint8_t *w, int64_t wStride, int64_t rows,                   \
            const uint8_t *const *act, int64_t tokens, int64_t cols,           \
            float *out, int64_t outStride);
#include "kernels/Gemms.def"

} // namespace moek

#endif // MOE_KERNELS_GEMMFNS_H
