//===- Layout.h - Arrangements of a weight's bytes in memory ----*- C++ -*-===//

#ifndef MOE_KERNELS_LAYOUT_H
#define MOE_KERNELS_LAYOUT_H

#include "kernels/quant/Rows16.h"

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace moek {

/// The arrangement of a weight's bytes. Gguf: rows as in the file. Rows16:
/// panels of interleaved rows (kernels/quant/Rows16.h). A gemm for Rows16 is
/// always called with whole panels; only the last one may have fewer rows.
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

/// Whether rows of `cols` elements (a multiple of the format's block) can be
/// stored in `layout`.
constexpr bool hasLayout(Layout layout, Format format, int64_t cols) {
  return layout == Layout::Gguf || hasRows16(format, cols);
}

/// Bytes from one row of `cols` elements to the next, without gaps. Needs
/// hasLayout().
constexpr uint64_t rowBytes(Layout layout, Format format, uint64_t cols) {
  return layout == Layout::Gguf || rows16Shape(format).codeBits == 16
             ? rowBytes(format, cols)
             : rows16Bytes(format, cols);
}

/// Number of rows that a matrix of `rows` rows occupies, padding included.
constexpr int64_t storedRows(Layout layout, int64_t rows) {
  return layout == Layout::Gguf ? rows
                                : (rows + kRows16 - 1) / kRows16 * kRows16;
}

} // namespace moek

#endif // MOE_KERNELS_LAYOUT_H
