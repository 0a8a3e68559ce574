//===- Dequant.h - Rows as floats, with AVX2 -----------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX2_DEQUANT_H
#define MOE_KERNELS_CPU_AVX2_DEQUANT_H

#include <cstdint>

namespace moek::avx2 {

/// A function per format: `cols` elements of a row, whole blocks, to `out`.
struct Dequant {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  static void name(const uint8_t *row, int64_t cols, float *out);
#include "kernels/quant/Formats.def"
};

} // namespace moek::avx2

#endif // MOE_KERNELS_CPU_AVX2_DEQUANT_H
