//===- Layout.h - Arrangements of a weight's bytes --------------*- C++ -*-===//

#ifndef MOE_KERNELS_LAYOUT_H
#define MOE_KERNELS_LAYOUT_H

#include "kernels/quant/Rows16.h"

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace moek {

/// How a weight's bytes are arranged. Gguf: rows as in the file. Rows16: see
/// kernels/quant/Rows16.h; a gemm is then given whole panels, a number of rows
/// that only the last panel may fall short of.
enum class Layout : uint8_t { Gguf = 0, Rows16 = 1 };

inline constexpr std::string_view kLayoutNames[] = {"gguf", "rows16"};

constexpr std::string_view layoutName(Layout layout) {
  return kLayoutNames[size_t(layout)];
}

constexpr std::optional<Layout> layoutFromNumber(uint32_t number) {
  if (number < std::size(kLayoutNames))
    return Layout(number);
  return std::nullopt;
}

/// Whether rows of `cols` elements, whole blocks of the format, can be laid out
/// so.
constexpr bool hasLayout(Layout layout, Format format, int64_t cols) {
  return layout == Layout::Gguf || hasRows16(format, cols);
}

/// Bytes from row to row of `cols` elements without gaps; hasLayout().
constexpr uint64_t rowBytes(Layout layout, Format format, uint64_t cols) {
  return layout == Layout::Gguf || rows16Shape(format).codeBits == 16
             ? rowBytes(format, cols)
             : rows16Bytes(format, cols);
}

/// Rows that a matrix of `rows` takes room for.
constexpr int64_t storedRows(Layout layout, int64_t rows) {
  return layout == Layout::Gguf ? rows
                                : (rows + kRows16 - 1) / kRows16 * kRows16;
}

} // namespace moek

#endif // MOE_KERNELS_LAYOUT_H
