//===- gemm_rows16.cpp - Interleaved rows with AMX
//--------------------------===//
//
// The format's unpacking is that of kernels/cpu/avx512/Rows16Tile.h, so a line
// of Kernels.def is all that a format needs here.
//
//===----------------------------------------------------------------------===//

#include "kernels/cpu/amx/Bf16Gemm.h"
#include "kernels/cpu/amx/Int8Gemm.h"

namespace moek::amx {
namespace {
template <Format F>
MOE_INLINE void gemm(const uint8_t *w, int64_t wStride, int64_t rows,
                     const uint8_t *const *act, int64_t tokens, int64_t cols,
                     float *out, int64_t outStride) {
  if constexpr (F == Format::BF16)
    bf16Gemm(w, wStride, rows, act, tokens, cols, out, outStride);
  else
    int8Gemm<F>(w, wStride, rows, act, tokens, cols, out, outStride);
}
} // namespace
} // namespace moek::amx

#define MOE_GEMM_Ref(name, format)
#define MOE_GEMM_Avx2(name, format)
#define MOE_GEMM_Avx512(name, format)
#define MOE_GEMM_Amx(name, format)                                             \
  MOE_DEFINE_GEMM(name, moek::amx::gemm<moek::Format::format>)
#define MOE_GEMM(name, format, encoding, layout, isa, min, max)                \
  MOE_GEMM_##isa(name, format)
#include "kernels/Kernels.def"
