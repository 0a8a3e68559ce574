//===- gemm_ref.cpp - Matrix products in plain C++ ------------------------===//
//
// The reference that tests compare every other gemm with: F32 activations,
// weights converted to floats block by block, sums in double.
//
//===----------------------------------------------------------------------===//

#include "kernels/GemmFns.h"
#include "kernels/cpu/OfIsa.h"
#include "kernels/quant/Blocks.h"

#include <algorithm>

namespace moek {

namespace {
/// Number of tokens whose sums are on the stack while a row's blocks are
/// converted once.
constexpr int64_t kTile = 64;

template <class Block>
void rowTimesTokens(const Block *row, const uint8_t *const *act, int64_t tokens,
                    int64_t cols, double *sums) {
  std::fill_n(sums, tokens, 0.0);
  float values[Block::kElements];
  for (int64_t block = 0; block < cols / Block::kElements; ++block) {
    dequantize(row[block], values);
    for (int64_t t = 0; t < tokens; ++t) {
      const float *x =
          reinterpret_cast<const float *>(act[t]) + block * Block::kElements;
      for (int i = 0; i < Block::kElements; ++i)
        sums[t] += double(values[i]) * double(x[i]);
    }
  }
}

template <class Block>
void gemm(const uint8_t *w, int64_t wStride, int64_t rows,
          const uint8_t *const *act, int64_t tokens, int64_t cols, float *out,
          int64_t outStride) {
  double sums[kTile];
  for (int64_t first = 0; first < tokens; first += kTile) {
    int64_t count = std::min(kTile, tokens - first);
    for (int64_t r = 0; r < rows; ++r) {
      rowTimesTokens(reinterpret_cast<const Block *>(w + r * wStride),
                     act + first, count, cols, sums);
      for (int64_t t = 0; t < count; ++t)
        out[(first + t) * outStride + r] = float(sums[t]);
    }
  }
}
} // namespace

#define MOE_GEMM(name, format, encoding, layout, isa, min, max, panel)         \
  MOE_IF_ISA(                                                                  \
      isa, void name(const uint8_t *w, int64_t wStride, int64_t rows,          \
                     const uint8_t *const *act, int64_t tokens, int64_t cols,  \
                     float *out, int64_t outStride) {                          \
        gemm<BlockOf<Format::format>>(w, wStride, rows, act, tokens, cols,     \
                                      out, outStride);                         \
      })
#include "kernels/Gemms.def"

} // namespace moek
