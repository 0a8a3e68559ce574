//===- TileInstruction.h - Decodes AMX instructions -------------*- C++ -*-===//
//
// Decodes machine code for 64-bit mode: the instructions of AMX-TILE, AMX-INT8
// and AMX-BF16 in every form that an assembler can write without segment or
// address-size prefixes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_AMX_TILEINSTRUCTION_H
#define MOE_TEST_AMX_TILEINSTRUCTION_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace moek::test {

enum class TileOp : uint8_t {
  LdTileCfg,
  StTileCfg,
  TileRelease,
  TileZero,
  TileLoadD,
  TileLoadDT1,
  TileStoreD,
  TdpBssd,
  TdpBsud,
  TdpBusd,
  TdpBuud,
  TdpBf16ps,
};
inline constexpr int kTileOps = 12;

std::string_view tileOpName(TileOp op); ///< "TILELOADD"

/// Register numbers are those of the encoding: 0 rax, 1 rcx, ... 15 r15.
struct TileInstruction {
  static constexpr int kNone = -1;
  /// As `base`: relative to the next instruction.
  static constexpr int kRip = -2;

  TileOp op;
  int length; ///< Length in bytes.
  /// Destination (or the stored tile), then the sources of a product.
  int tile = kNone, left = kNone, right = kNone;
  /// Address: base + displacement. The index is the distance between a tile's
  /// rows.
  int base = kNone, index = kNone;
  int scale = 0; ///< log2 of the index's factor.
  int32_t displacement = 0;
};

/// Decodes the instruction at `code`; returns nothing if it is not one of
/// these. Reads no byte past the instruction, or past the byte that rules it
/// out.
std::optional<TileInstruction> decodeTileInstruction(const uint8_t *code);

} // namespace moek::test

#endif // MOE_TEST_AMX_TILEINSTRUCTION_H
