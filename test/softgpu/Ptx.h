//===- Ptx.h - A parsed PTX module ------------------------------*- C++ -*-===//
//
// The result of parsing PTX text: functions with their variables, labels and
// instructions, with nothing resolved yet. Every element has its line number.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_PTX_H
#define MOE_TEST_SOFTGPU_PTX_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu {

/// Thrown when a load fails, and caught where a module is loaded.
struct PtxError {
  int line;
  std::string message;
};

enum class Space : uint8_t {
  Reg,
  Global,
  Shared,
  Local,
  Param,
  Const,
  Generic
};

/// A type such as "f16x2". `bits` is the width of one element.
struct PtxType {
  enum Kind : uint8_t {
    None,
    Bits,
    Unsigned,
    Signed,
    Float,
    Bfloat,
    Tf,
    E4m3,
    E5m2,
    Pred
  };
  Kind kind = None;
  uint8_t bits = 0;
  bool pair = false; ///< Type x2: two elements in a register.

  bool isInteger() const {
    return kind == Bits || kind == Unsigned || kind == Signed;
  }
  bool isSigned() const { return kind == Signed; }
  bool isFloat() const { return kind >= Float && kind <= E5m2; }
  int bytes() const { return kind == Pred ? 0 : bits * (pair ? 2 : 1) / 8; }
  bool operator==(const PtxType &) const = default;
};

/// Returns the type called `name` ("u32", without its dot), or None if there is
/// no such type.
PtxType ptxType(std::string_view name);

struct PtxOperand {
  enum Kind { Name, Int, Float, Address, Vector, Sink };
  Kind kind = Sink;
  /// The name, or the base of an Address; empty if it is a number.
  std::string name;
  /// For Int and Float (as binary64) the value; for Address the offset.
  uint64_t bits = 0;
  /// For Float: written as 0f..., that is, exactly a binary32.
  bool isSingle = false;
  bool negated = false;          ///< For Name: written with "!", as in "!%p1".
  bool isNegative = false;       ///< For Int: written with a minus sign.
  std::vector<PtxOperand> parts; ///< Elements of a Vector.
};

struct PtxInstruction {
  int line = 0;
  int sourceLine = 0; ///< Line in the CUDA file, from .loc; 0: unknown.
  std::string guard;  ///< A predicate register, or empty.
  bool guardNegated = false;
  std::string opcode;                 ///< "ld"
  std::vector<std::string> modifiers; ///< "global", "v4", "f32"
  std::vector<PtxOperand> operands;   ///< "%r1|%p1" counts as two operands.
  std::string label; ///< Label, if the item is one instead of an instruction.
  std::string text() const; ///< Opcode with modifiers: "ld.global.v4.f32".
};

struct PtxVariable {
  int line = 0;
  Space space = Space::Reg;
  std::string name;
  PtxType type;
  uint64_t align = 1;
  uint64_t bytes = 0; ///< 0: an array without bounds (dynamic shared).
  /// "%r<10>" declares that many registers; 0: one named register.
  int registers = 0;
  bool isExtern = false;
  /// Initial bytes; the rest of the variable is zero.
  std::vector<uint8_t> data;
  /// Byte offsets in `data` that hold the address of a variable.
  std::vector<std::pair<uint64_t, std::string>> addresses;
};

/// A scope ({ }) of a body. Its names hide those of outer scopes.
struct PtxScope {
  std::vector<PtxVariable> variables;
  struct Item { ///< An instruction or a scope, in the order of the text.
    PtxInstruction instruction;
    int scope = -1; ///< Index in PtxFunction::scopes.
  };
  std::vector<Item> items;
};

struct PtxFunction {
  int line = 0;
  std::string name;
  bool isEntry = false, hasBody = false;
  std::vector<PtxVariable> params, results;
  std::vector<PtxScope> scopes; ///< [0] is the body.
  std::map<std::string, std::vector<std::string>> branchTargets;
  uint32_t maxThreads[3] = {0, 0, 0};      ///< Values of .maxntid; 0 without.
  uint32_t requiredThreads[3] = {0, 0, 0}; ///< .reqntid
  uint32_t cluster[3] = {1, 1, 1};         ///< .reqnctapercluster
  int minBlocksPerSm = 0, maxRegisters = 0;
};

struct PtxModule {
  int versionMajor = 0, versionMinor = 0;
  int arch = 0; ///< 89 stands for sm_89.
  /// 'a' or 'f': runs only on this arch, or only on its family.
  char archSuffix = 0;
  std::vector<PtxVariable> variables;
  std::vector<PtxFunction> functions;
};

/// Parses a module, or returns which line is wrong or unknown.
moert::StatusOr<PtxModule> parsePtx(std::string_view text);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_PTX_H
