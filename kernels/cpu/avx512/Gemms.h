//===- Gemms.h - The AVX-512 specific code of the gemms ---------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX512_GEMMS_H
#define MOE_KERNELS_CPU_AVX512_GEMMS_H

#include "kernels/cpu/FloatGemm.h"
#include "kernels/cpu/Int8Gemm.h"
#include "kernels/cpu/Rows16Gemm.h"
#include "kernels/cpu/avx512/FloatPanels.h"
#include "kernels/cpu/avx512/Int8Dequant.h"
#include "kernels/cpu/avx512/Int8Dot.h"
#include "kernels/cpu/avx512/Int8Panel.h"
#include "kernels/cpu/avx512/Rows16Dot.h"
#include "kernels/cpu/avx512/Rows16Panel.h"
#include "kernels/cpu/avx512/Simd.h"

namespace moek::avx512 {
namespace {

/// Implements the interface I of cpu/Int8Gemm.h and cpu/Rows16Gemm.h.
struct Gemms {
  using Simd = avx512::Simd;
  template <Format F> using FloatPanels = avx512::FloatPanels<F>;
  template <Format F> using Gguf = avx512::Gguf<F>;
  template <Format F> using Tile = Rows16Tile<F>;
  /// 4 rows share one load of the activations. With several tokens, 2 rows keep
  /// sums and unpacked codes within 32 registers.
  template <int T> static constexpr int kDotRows = T == 1 ? 4 : 2;
  static constexpr int kGroupRows = 16;

  template <class G, int R, int T, bool Half>
  MOE_INLINE static void addSpan(const typename G::Block *const rows[R],
                                 const A8Row tokens[T], int64_t i,
                                 __m512 sums[R][T]) {
    avx512::addSpan<G, R, T, Half>(rows, tokens, i, sums);
  }
  template <Format F, class... Args>
  MOE_INLINE static void panelBlock(Args... args) {
    avx512::panelBlock<GgufSource<GgufPanel<F>>>(args...);
  }
  template <Format F>
  MOE_INLINE static void dequantize(const uint8_t *row, int64_t cols,
                                    float *out) {
    dequantizeBlocks<Gguf<F>>(row, cols, out);
  }

  template <Format F, int T>
  MOE_INLINE static void dotTile(const uint8_t *tile, const A8Row *x,
                                 int64_t block, __m512 sums[1][T]) {
    if constexpr (Tile<F>::kHasNumbers)
      dotNumbers<F, T>(tile, x, block, sums[0]);
    else
      dotBlock<F, T>(tile, x, block, sums[0]);
  }
  template <Format F, class... Args>
  MOE_INLINE static void rows16PanelBlock(Args... args) {
    avx512::panelBlock<Rows16Source<F>>(args...);
  }
};

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_GEMMS_H
