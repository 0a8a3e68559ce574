//===- Dequant.cpp - Converts rows of any format to floats ----------------===//

#include "kernels/quant/Dequant.h"

#include "kernels/quant/Blocks.h"

namespace moek {

namespace {
template <class Block>
void dequantizeBlocks(const uint8_t *row, int64_t cols, float *out) {
  const auto *blocks = reinterpret_cast<const Block *>(row);
  for (int64_t i = 0; i < cols / Block::kElements; ++i)
    dequantize(blocks[i], out + i * Block::kElements);
}
} // namespace

bool dequantizeRow(Format format, const uint8_t *row, int64_t cols,
                   float *out) {
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    dequantizeBlocks<Block##name>(row, cols, out);                             \
    return true;
#define MOE_FORMAT_SIZE_ONLY(name, id, elements, bytes)                        \
  case Format::name:                                                           \
    return false;
#include "kernels/quant/Formats.def"
  }
  return false;
}

} // namespace moek
