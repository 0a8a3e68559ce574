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
  bool pair = false; ///< x2: two elements in a register.

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
  std::string name;  ///< Name; the base of an Address, empty if it is a number.
  uint64_t bits = 0; ///< Int, Float (as binary64); Address: the offset.
  bool isSingle = false;   ///< Float: written 0f..., i.e. exactly a binary32.
  bool negated = false;    ///< Name: "!%p1".
  bool isNegative = false; ///< Int: had a minus sign.
  std::vector<PtxOperand> parts; ///< Vector.
};

struct PtxInstruction {
  int line = 0;
  int sourceLine = 0; ///< Line in the CUDA file, from .loc; 0: unknown.
  std::string guard;  ///< A predicate register, or empty.
  bool guardNegated = false;
  std::string opcode;                 ///< "ld"
  std::vector<std::string> modifiers; ///< "global", "v4", "f32"
  std::vector<PtxOperand> operands;   ///< "%r1|%p1" is two operands.
  std::string label;                  ///< A label instead of an instruction.
  std::string text() const;           ///< "ld.global.v4.f32"
};

struct PtxVariable {
  int line = 0;
  Space space = Space::Reg;
  std::string name;
  PtxType type;
  uint64_t align = 1;
  uint64_t bytes = 0; ///< 0: an array without bounds (dynamic shared).
  int registers = 0;  ///< "%r<10>": number of them; 0: one named register.
  bool isExtern = false;
  std::vector<uint8_t> data; ///< Initial bytes; may be short.
  std::vector<std::pair<uint64_t, std::string>>
      addresses; ///< (byte, variable): addresses within `data`.
};

/// A scope ({ }) of a body. Its names hide those of outer scopes.
struct PtxScope {
  std::vector<PtxVariable> variables;
  struct Item { ///< An instruction or a scope, in order.
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
  uint32_t maxThreads[3] = {0, 0, 0};      ///< .maxntid; 0 without.
  uint32_t requiredThreads[3] = {0, 0, 0}; ///< .reqntid
  uint32_t cluster[3] = {1, 1, 1};         ///< .reqnctapercluster
  int minBlocksPerSm = 0, maxRegisters = 0;
};

struct PtxModule {
  int versionMajor = 0, versionMinor = 0;
  int arch = 0;        ///< 89 for sm_89.
  char archSuffix = 0; ///< 'a' or 'f': runs on this arch (family) only.
  std::vector<PtxVariable> variables;
  std::vector<PtxFunction> functions;
};

/// Parses a module, or returns which line is wrong or unknown.
moert::StatusOr<PtxModule> parsePtx(std::string_view text);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_PTX_H
