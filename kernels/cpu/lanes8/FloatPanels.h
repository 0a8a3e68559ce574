//===- FloatPanels.h - Interleaved F16 and BF16 -----------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_LANES8_FLOATPANELS_H
#define MOE_KERNELS_CPU_LANES8_FLOATPANELS_H

#include "kernels/cpu/Rows16Float.h"
#include "kernels/cpu/lanes8/Bytes.h"

namespace moek::MOE_ISA {
namespace {

/// A loader of Rows16Float.h.
template <Format F> struct FloatPanels;

template <> struct FloatPanels<Format::F16> : HalfColumns {
  static constexpr int kPanels = 1, kTokens = 3;
};

template <> struct FloatPanels<Format::BF16> {
  static constexpr int kPanels = 1, kTokens = 4;
  MOE_INLINE static void column(const uint8_t *tile, int c, Floats to[2]) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      Ints pairs = load256(tile + 32 * half);
      to[half] = asFloats(c == 0 ? shiftLeft32(pairs, 16)
                                 : bitAnd(pairs, set32(int(0xffff0000))));
    }
  }
  MOE_INLINE static void rows(Floats[2]) {}
};

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_LANES8_FLOATPANELS_H
