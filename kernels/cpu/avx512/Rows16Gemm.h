//===- Rows16Gemm.h - A gemm on interleaved rows ----------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX512_ROWS16GEMM_H
#define MOE_KERNELS_CPU_AVX512_ROWS16GEMM_H

#include "kernels/cpu/avx512/Rows16Dot.h"
#include "kernels/cpu/avx512/Rows16Panel.h"

namespace moek::avx512 {
namespace {

/// From here on storing an expanded panel and loading it for each six tokens
/// costs less than unpacking the weights once more per kDotTokens tokens.
constexpr int64_t kRows16PanelMinTokens = 5;
constexpr int kDotTokens = 4;

template <Format F>
void rows16Gemm(const uint8_t *w, int64_t wStride, int64_t rows,
                const uint8_t *const *act, int64_t tokens, int64_t cols,
                float *out, int64_t outStride) {
  if (tokens < kRows16PanelMinTokens) {
    forTokenTiles<kDotTokens>(tokens, [&](auto size, int64_t t) {
      dotTokens<F, size>(w, wStride, rows, act + t, cols, out + t * outStride,
                         outStride);
    });
    return;
  }
  forBlocks(rows, tokens,
            [&](int64_t r, int64_t rowCount, int64_t t, int64_t tokenCount) {
              panelBlock<Rows16Source<F>>(w + r * wStride, wStride, rowCount,
                                          act + t, tokenCount, cols,
                                          out + t * outStride + r, outStride);
            });
}

} // namespace
} // namespace moek::avx512

/// Defines the kernel `name` for `format` in the Rows16 layout.
#define MOE_ROWS16_GEMM(name, format)                                          \
  MOE_DEFINE_GEMM(name, moek::avx512::rows16Gemm<moek::Format::format>)

#endif // MOE_KERNELS_CPU_AVX512_ROWS16GEMM_H
