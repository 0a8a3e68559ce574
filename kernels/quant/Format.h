//===- Format.h - Names, numbers and sizes of tensor formats ----*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_FORMAT_H
#define MOE_KERNELS_QUANT_FORMAT_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace moek {

/// A tensor's element format. The enumerators are ggml's type numbers.
enum class Format : uint8_t {
#define MOE_FORMAT(name, id, elements, bytes) name = id,
#define MOE_FORMAT_SIZE_ONLY(name, id, elements, bytes) name = id,
#include "kernels/quant/Formats.def"
};

struct FormatInfo {
  std::string_view name;
  uint32_t blockElements;
  uint32_t blockBytes;
  bool hasKernels; ///< False if only the format's size is known.
};

/// Returns null if the number is not a ggml type.
constexpr std::optional<Format> formatFromNumber(uint32_t number) {
  switch (number) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case id:                                                                     \
    return Format::name;
#define MOE_FORMAT_SIZE_ONLY(name, id, elements, bytes)                        \
  case id:                                                                     \
    return Format::name;
#include "kernels/quant/Formats.def"
  }
  return std::nullopt;
}

constexpr FormatInfo formatInfo(Format format) {
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    return {#name, elements, bytes, true};
#define MOE_FORMAT_SIZE_ONLY(name, id, elements, bytes)                        \
  case Format::name:                                                           \
    return {#name, elements, bytes, false};
#include "kernels/quant/Formats.def"
  }
  return {"?", 1, 0, false};
}

/// Bytes of a row of `cols` elements; `cols` is a multiple of the format's
/// block.
constexpr uint64_t rowBytes(Format format, uint64_t cols) {
  FormatInfo info = formatInfo(format);
  return cols / info.blockElements * info.blockBytes;
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_FORMAT_H
