//===- GgufTypes.h - Names and widths of metadata types ---------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_GGUFTYPES_H
#define MOE_COMPILER_IMPORT_GGUFTYPES_H

#include "compiler/Import/GgufFile.h"

#include <array>
#include <optional>
#include <string_view>

namespace moec {

enum class GgufKind { Unsigned, Signed, Float, Bool, String, Array };

struct GgufTypeInfo {
  std::string_view name;
  GgufKind kind;
  /// Size of a scalar; least size of a string or array.
  unsigned bytes;
};

inline constexpr std::array<GgufTypeInfo, 13> ggufTypes = {{
    {"u8", GgufKind::Unsigned, 1},
    {"i8", GgufKind::Signed, 1},
    {"u16", GgufKind::Unsigned, 2},
    {"i16", GgufKind::Signed, 2},
    {"u32", GgufKind::Unsigned, 4},
    {"i32", GgufKind::Signed, 4},
    {"f32", GgufKind::Float, 4},
    {"bool", GgufKind::Bool, 1},
    {"string", GgufKind::String, 8},
    {"array", GgufKind::Array, 12},
    {"u64", GgufKind::Unsigned, 8},
    {"i64", GgufKind::Signed, 8},
    {"f64", GgufKind::Float, 8},
}};

constexpr const GgufTypeInfo &ggufTypeInfo(GgufType type) {
  return ggufTypes[static_cast<uint32_t>(type)];
}

/// Returns nullopt for a number that is no metadata type.
constexpr std::optional<GgufType> ggufTypeFromNumber(uint32_t number) {
  if (number >= ggufTypes.size())
    return std::nullopt;
  return static_cast<GgufType>(number);
}

} // namespace moec

#endif // MOE_COMPILER_IMPORT_GGUFTYPES_H
