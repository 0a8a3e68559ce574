//===- Gemms.h - Gemms of vectors of eight lanes ----------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_LANES8_GEMMS_H
#define MOE_KERNELS_CPU_LANES8_GEMMS_H

#include "kernels/cpu/FloatGemm.h"
#include "kernels/cpu/Int8Gemm.h"
#include "kernels/cpu/Rows16Gemm.h"
#include "kernels/cpu/lanes8/FloatPanels.h"
#include "kernels/cpu/lanes8/Int8Dequant.h"
#include "kernels/cpu/lanes8/Int8Dot.h"
#include "kernels/cpu/lanes8/Int8Panel.h"
#include "kernels/cpu/lanes8/Rows16Dot.h"
#include "kernels/cpu/lanes8/Rows16Panel.h"

namespace moek::MOE_ISA {
namespace {

/// Implements the interface I of cpu/Int8Gemm.h and cpu/Rows16Gemm.h.
struct Gemms {
  using Simd = MOE_ISA::Simd;
  template <Format F> using FloatPanels = MOE_ISA::FloatPanels<F>;
  template <Format F> using Gguf = MOE_ISA::Gguf<F>;
  template <Format F> using Tile = Rows16Tile<F>;
  /// The scales and sums of two rows are what fits in 16 registers.
  template <int T> static constexpr int kDotRows = 2;
  static constexpr int kGroupRows = 8;

  template <class G, int R, int T, bool>
  MOE_INLINE static void addSpan(const typename G::Block *const rows[R],
                                 const A8Row tokens[T], int64_t i,
                                 Floats sums[R][T]) {
    if constexpr (G::kSpan == 256)
      addSpan256<G, R, T>(rows, tokens, i, sums);
    else if constexpr (G::kSpan == 64)
      addSpan64<G, R, T>(rows, tokens, i, sums);
    else
      addSpan32<G, R, T>(rows, tokens, i, sums);
  }
  template <Format F, class... Args>
  MOE_INLINE static void panelBlock(Args... args) {
    MOE_ISA::panelBlock<Gguf<F>>(args...);
  }
  template <Format F>
  MOE_INLINE static void dequantize(const uint8_t *row, int64_t cols,
                                    float *out) {
    dequantizeBlocks<Gguf<F>>(row, cols, out);
  }

  template <Format F, int T>
  MOE_INLINE static void dotTile(const uint8_t *tile, const A8Row *x,
                                 int64_t block, Floats sums[2][T]) {
    if constexpr (Tile<F>::kSuper)
      dotSuper<F, T>(tile, x, block, sums);
    else if constexpr (Tile<F>::kIsFloats)
      dotFloats<F, T>(tile, x, block, sums);
    else
      dotBlock<F, T>(tile, x, block, sums);
  }
  template <Format F, class... Args>
  MOE_INLINE static void rows16PanelBlock(Args... args) {
    MOE_ISA::rows16PanelBlock<F>(args...);
  }
};

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_LANES8_GEMMS_H
