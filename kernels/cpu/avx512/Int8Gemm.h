//===- Int8Gemm.h - A gemm from a format's traits ---------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX512_INT8GEMM_H
#define MOE_KERNELS_CPU_AVX512_INT8GEMM_H

#include "kernels/cpu/avx512/Int8Dequant.h"
#include "kernels/cpu/avx512/Int8Dot.h"
#include "kernels/cpu/avx512/Int8Panel.h"

namespace moek::avx512 {
namespace {

/// From here on expanding and transposing a panel costs less than unpacking
/// the weights once more per four tokens.
constexpr int64_t kPanelMinTokens = 5;
/// A panel works in groups of 16 rows.
constexpr int64_t kPanelMinRows = 9;

template <class Dot, class Panel>
void int8Gemm(const uint8_t *w, int64_t wStride, int64_t rows,
              const uint8_t *const *act, int64_t tokens, int64_t cols,
              float *out, int64_t outStride) {
  if (tokens >= kPanelMinTokens && rows >= kPanelMinRows)
    forBlocks(rows, tokens,
              [&](int64_t r, int64_t rowCount, int64_t t, int64_t tokenCount) {
                panelBlock<GgufSource<Panel>>(
                    w + r * wStride, wStride, rowCount, act + t, tokenCount,
                    cols, out + t * outStride + r, outStride);
              });
  else
    dotGemm<Dot>(w, wStride, rows, act, tokens, cols, out, outStride);
}

} // namespace
} // namespace moek::avx512

/// Defines the kernel `name` from traits in namespace moek::avx512, and the
/// format's Dequant function. `traits` are named like the format; those for
/// panels may be others.
#define MOE_INT8_GEMM(name, traits, panel)                                     \
  MOE_DEFINE_GEMM(                                                             \
      name, moek::avx512::int8Gemm<moek::avx512::traits, moek::avx512::panel>) \
  void moek::avx512::Dequant::traits(const uint8_t *row, int64_t cols,         \
                                     float *out) {                             \
    moek::avx512::dequantizeBlocks<moek::avx512::traits>(row, cols, out);      \
  }

#endif // MOE_KERNELS_CPU_AVX512_INT8GEMM_H
