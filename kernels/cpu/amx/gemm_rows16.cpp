//===- gemm_rows16.cpp - Gemms of interleaved rows with AMX ---------------===//
//
// Formats are unpacked by kernels/cpu/avx512/Rows16Tile.h, so a new format
// needs only its line in Formats.def here.
//
//===----------------------------------------------------------------------===//

#include "kernels/cpu/amx/Bf16Gemm.h"
#include "kernels/cpu/amx/Int8Gemm.h"

namespace moek::amx {
namespace {
/// Calls `Other` for fewer than `Min` rows of activations.
template <Format F, int64_t Min, GemmFn Other>
MOE_INLINE void gemm(const uint8_t *w, int64_t wStride, int64_t rows,
                     const uint8_t *const *act, int64_t tokens, int64_t cols,
                     float *out, int64_t outStride) {
  if (tokens < Min)
    return Other(w, wStride, rows, act, tokens, cols, out, outStride);
  forBlocks(rows, tokens,
            [&](int64_t r, int64_t rowCount, int64_t t, int64_t tokenCount) {
              const uint8_t *from = w + r * wStride;
              float *to = out + t * outStride + r;
              if constexpr (F == Format::BF16)
                bf16TileBlock(from, wStride, rowCount, act + t, tokenCount,
                              cols, to, outStride);
              else
                tileBlock<F>(from, wStride, rowCount, act + t, tokenCount, cols,
                             to, outStride);
            });
}
} // namespace
} // namespace moek::amx

#define MOE_TILE_GEMM(name, format, encoding, min, other)                      \
  MOE_DEFINE_GEMM(name, moek::amx::gemm<moek::Format::format, min, moek::other>)
#include "kernels/Gemms.def"
