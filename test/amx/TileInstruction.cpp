//===- TileInstruction.cpp - Decodes AMX instructions ---------------------===//
//
// All have the encoding VEX.128.0F38.W0: C4, then [not R, not X, not B, map
// 00010], then [W, not vvvv, L, pp], opcode, ModRM, possibly SIB and
// displacement. Tiles are numbered 0 to 7, so that an extension bit of a tile
// operand that is set is invalid.
//
//===----------------------------------------------------------------------===//

#include "test/amx/TileInstruction.h"

#include <cstring>

namespace moek::test {

namespace {
enum class Operands : uint8_t {
  Memory,   ///< ModRM.reg is 0.
  None,     ///< ModRM is C0.
  Tile,     ///< ModRM.rm is 0.
  TileRows, ///< A SIB byte is required.
  Product,
};

struct Form {
  TileOp op;
  uint8_t opcode;
  uint8_t prefix; ///< The field pp: 0 none, 1 66, 2 F3, 3 F2.
  Operands operands;
  std::string_view name;
};

/// Sorted as TileOp.
constexpr Form forms[kTileOps] = {
    {TileOp::LdTileCfg, 0x49, 0, Operands::Memory, "LDTILECFG"},
    {TileOp::StTileCfg, 0x49, 1, Operands::Memory, "STTILECFG"},
    {TileOp::TileRelease, 0x49, 0, Operands::None, "TILERELEASE"},
    {TileOp::TileZero, 0x49, 3, Operands::Tile, "TILEZERO"},
    {TileOp::TileLoadD, 0x4b, 3, Operands::TileRows, "TILELOADD"},
    {TileOp::TileLoadDT1, 0x4b, 1, Operands::TileRows, "TILELOADDT1"},
    {TileOp::TileStoreD, 0x4b, 2, Operands::TileRows, "TILESTORED"},
    {TileOp::TdpBssd, 0x5e, 3, Operands::Product, "TDPBSSD"},
    {TileOp::TdpBsud, 0x5e, 2, Operands::Product, "TDPBSUD"},
    {TileOp::TdpBusd, 0x5e, 1, Operands::Product, "TDPBUSD"},
    {TileOp::TdpBuud, 0x5e, 0, Operands::Product, "TDPBUUD"},
    {TileOp::TdpBf16ps, 0x5c, 2, Operands::Product, "TDPBF16PS"},
};

constexpr bool hasMemory(Operands operands) {
  return operands == Operands::Memory || operands == Operands::TileRows;
}

/// Finds the form with this opcode and prefix that allows `mod` as ModRM.mod.
const Form *findForm(uint8_t opcode, uint8_t prefix, int mod) {
  for (const Form &form : forms)
    if (form.opcode == opcode && form.prefix == prefix &&
        hasMemory(form.operands) == (mod != 3))
      return &form;
  return nullptr;
}

/// Reads SIB and displacement after the ModRM byte at `code`; returns null if
/// the form needs a SIB byte and has none.
const uint8_t *decodeAddress(const uint8_t *code, int extendBase,
                             int extendIndex, bool needsSib,
                             TileInstruction &out) {
  int mod = *code >> 6, rm = *code & 7;
  ++code;
  bool noBase = mod == 0 && rm == 5;
  if (rm == 4) {
    uint8_t sib = *code++;
    int index = (sib >> 3 & 7) | extendIndex;
    out.scale = sib >> 6;
    // rsp cannot be an index, but r12 can.
    out.index = index == 4 ? TileInstruction::kNone : index;
    noBase = mod == 0 && (sib & 7) == 5;
    out.base = noBase ? TileInstruction::kNone : (sib & 7) | extendBase;
  } else {
    if (needsSib)
      return nullptr;
    out.base = noBase ? TileInstruction::kRip : rm | extendBase;
  }
  if (mod == 1) {
    out.displacement = int8_t(*code);
    return code + 1;
  }
  if (mod == 2 || noBase) {
    std::memcpy(&out.displacement, code, 4);
    return code + 4;
  }
  return code;
}
} // namespace

std::string_view tileOpName(TileOp op) { return forms[int(op)].name; }

std::optional<TileInstruction> decodeTileInstruction(const uint8_t *code) {
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2)
    return std::nullopt;
  bool extendReg = !(code[1] & 0x80);
  int extendIndex = code[1] & 0x40 ? 0 : 8;
  int extendBase = code[1] & 0x20 ? 0 : 8;
  int vvvv = ~(code[2] >> 3) & 15;
  bool wideOrLong = code[2] & 0x84; // Bits W and L.
  if (wideOrLong || (code[3] != 0x49 && code[3] != 0x4b && code[3] != 0x5c &&
                     code[3] != 0x5e))
    return std::nullopt;
  uint8_t modRm = code[4];
  int reg = modRm >> 3 & 7, rm = modRm & 7;
  const Form *form = findForm(code[3], code[2] & 3, modRm >> 6);
  if (!form || (form->operands != Operands::Product && vvvv != 0))
    return std::nullopt;

  TileInstruction out{form->op, 5};
  switch (form->operands) {
  case Operands::None:
    if (modRm != 0xc0 || extendReg || extendBase)
      return std::nullopt;
    return out;
  case Operands::Tile:
    if (rm != 0 || extendReg || extendBase)
      return std::nullopt;
    out.tile = reg;
    return out;
  case Operands::Product:
    if (extendReg || extendBase || vvvv > 7)
      return std::nullopt;
    out.tile = reg;
    out.left = rm;
    out.right = vvvv;
    return out;
  case Operands::Memory:
    if (reg != 0 || extendReg)
      return std::nullopt;
    break;
  case Operands::TileRows:
    if (extendReg)
      return std::nullopt;
    out.tile = reg;
    break;
  }
  const uint8_t *end = decodeAddress(code + 4, extendBase, extendIndex,
                                     form->operands == Operands::TileRows, out);
  if (!end)
    return std::nullopt;
  out.length = int(end - code);
  return out;
}

} // namespace moek::test
