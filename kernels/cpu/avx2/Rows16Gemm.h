//===- Rows16Gemm.h - A gemm on interleaved rows ----------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX2_ROWS16GEMM_H
#define MOE_KERNELS_CPU_AVX2_ROWS16GEMM_H

#include "kernels/cpu/avx2/Rows16Dot.h"
#include "kernels/cpu/avx2/Rows16Panel.h"

namespace moek::avx2 {
namespace {

/// Up to here unpacking the weights once more per kDotTokens tokens, the second
/// time from cache, costs less than storing an expanded panel: from memory, 3
/// and 4 tokens are 1.2 to 1.6 times as fast, 5 to 8 1.0 to 1.5 times.
constexpr int64_t kRows16DotMaxTokens = 8;
constexpr int kDotTokens = 4;

template <Format F>
void rows16Gemm(const uint8_t *w, int64_t wStride, int64_t rows,
                const uint8_t *const *act, int64_t tokens, int64_t cols,
                float *out, int64_t outStride) {
  if (tokens <= kRows16DotMaxTokens) {
    forTokenTiles<kDotTokens>(tokens, [&](auto size, int64_t t) {
      dotTokens<F, size>(w, wStride, rows, act + t, cols, out + t * outStride,
                         outStride);
    });
    return;
  }
  forBlocks(rows, tokens,
            [&](int64_t r, int64_t rowCount, int64_t t, int64_t tokenCount) {
              panelBlock<F>(w + r * wStride, wStride, rowCount, act + t,
                            tokenCount, cols, out + t * outStride + r,
                            outStride);
            });
}

} // namespace
} // namespace moek::avx2

/// Defines the kernel `name` for `format` in the Rows16 layout.
#define MOE_ROWS16_GEMM(name, format)                                          \
  MOE_DEFINE_GEMM(name, moek::avx2::rows16Gemm<moek::Format::format>)

#endif // MOE_KERNELS_CPU_AVX2_ROWS16GEMM_H
