//===- Decoder.h - Decodes PTX instructions to Ops --------------*- C++ -*-===//
//
// There is one decode function per opcode (Opcodes.def). It reads the modifiers
// one by one, names the operands and emits Ops. Modifiers that it leaves unread
// fail the load.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_DECODER_H
#define MOE_TEST_SOFTGPU_DECODER_H

#include "test/softgpu/Warp.h"

#include <fmt/format.h>
#include <initializer_list>
#include <optional>

namespace softgpu {

class Decoder {
public:
  Decoder(const PtxModule &module, const std::vector<ModuleVariable> &variables,
          Kernel &kernel)
      : module_(module), variables_(variables), kernel_(kernel) {}
  void decode(const PtxFunction &entry);

  // Interface for decode functions.
  const PtxInstruction &instruction() const { return *instruction_; }
  [[noreturn]] void fail(const std::string &what) const;

  /// Consumes the next modifier if it is `name`.
  bool accept(std::string_view name);
  /// Consumes the next modifier and returns its index in `names`. Fails if it
  /// is none of them.
  int choose(std::initializer_list<std::string_view> names);
  /// Does the work of choose(), but returns `otherwise` if the next modifier is
  /// none of them.
  int chooseOr(int otherwise, std::initializer_list<std::string_view> names);
  /// Consumes the next modifier, which must be a type.
  PtxType type();
  std::string_view peek(size_t ahead = 0) const;
  void skip() { ++modifier_; }

  size_t operandCount() const { return instruction_->operands.size(); }
  const PtxOperand &operand(size_t index) const;
  void needOperands(size_t least, size_t most) const;

  /// Starts an Op of this instruction.
  Op &begin(Handler handler, OpClass opClass);
  /// Adds a result or source to the Op: a register of `bytes` bytes (0: a
  /// predicate).
  void result(const PtxOperand &operand, int bytes);
  void result(size_t index, int bytes) { result(operand(index), bytes); }
  /// Adds a source that may also be a constant of `type`.
  void source(const PtxOperand &operand, PtxType type);
  void source(size_t index, PtxType type) { source(operand(index), type); }
  void source(size_t index, int bytes) { source(operand(index), bits(bytes)); }
  void sourcePlace(Place place);
  void resultPlace(Place place);
  /// Require that the lanes named by the last source, or all live lanes,
  /// execute the instruction together.
  void needNamedLanes();
  void needAllLanes();
  static PtxType bits(int bytes) {
    return {bytes ? PtxType::Bits : PtxType::Pred,
            uint8_t(bytes ? bytes * 8 : 1)};
  }

  /// Emits handler(result, sources...) over operands 0, 1, ...
  Op &simple(Handler handler, OpClass opClass, int resultBytes,
             std::initializer_list<PtxType> sources);

  /// Adds an address operand's base as a source; sets imm and addressBytes.
  void address(Op &op, const PtxOperand &operand);
  /// Returns the state space of an address without a register, if it is a
  /// variable's.
  std::optional<Space> spaceOf(const PtxOperand &operand) const;

  Place newRegister(int bytes);
  Place constant(uint64_t value, int bytes);
  /// Returns the bytes of the register that an operand names, or 0 for a
  /// constant.
  int registerBytes(const PtxOperand &operand) const;
  /// Fails unless the module's .target supports the instruction.
  void needArch(int arch) const;
  /// Fails unless .target is one architecture only, such as sm_90a.
  void needOneArch() const;
  uint64_t paramBytes() const { return kernel_.paramBytes; }
  /// Returns the carry flag of the condition code, a predicate.
  Place carryFlag();

  /// Makes the op a branch to the label.
  void branchTo(Op &op, const std::string &label);
  void branchTable(Op &op, const std::string &table);
  void callFunction();
  /// Decodes ret of an inlined function, or exit of the kernel.
  void leaveFunction();
  /// Whether the operand is a call's parameter; these are in local memory.
  bool isCallParam(const PtxOperand &operand) const;

private:
  struct Register {
    Place place = kNowhere;
    int bytes = 0;
  };
  struct Variable {
    Space space = Space::Local;
    uint64_t address = 0, bytes = 0;
  };
  struct Frame { ///< A function that is being inlined.
    const PtxFunction *function = nullptr;
    std::map<std::string, uint32_t> labels;
    /// Number of an op, and the label that it jumps to.
    std::vector<std::pair<uint32_t, std::string>> branches;
    /// Index in a table of targets, and the label there.
    std::vector<std::pair<size_t, std::string>> targets;
    std::vector<uint32_t> leaves; ///< Ops that jump to the function's end.
    /// One map for each scope, the inner one last.
    std::vector<std::map<std::string, Register>> registers;
    std::vector<std::map<std::string, Variable>> variables;
  };

  void decodeBody(const PtxFunction &function);
  void decodeScope(const PtxFunction &function, int scope);
  void declare(const PtxVariable &variable);
  void decodeInstruction(const PtxInstruction &instruction);
  const Register *findRegister(const std::string &name) const;
  std::optional<Variable> findVariable(const std::string &name) const;
  std::optional<Place> specialRegister(const std::string &name);
  Op &current() { return kernel_.ops.back(); }

  const PtxModule &module_;
  const std::vector<ModuleVariable> &variables_;
  Kernel &kernel_;
  std::vector<Frame> frames_;
  std::map<std::string, Variable> shared_;
  std::map<std::pair<uint64_t, int>, Place> constants_;
  std::map<Special, Place> specials_;
  const PtxInstruction *instruction_ = nullptr;
  size_t modifier_ = 0;
  Place carry_ = kNowhere;
};

using DecodeFunction = void (*)(Decoder &);
#define SOFTGPU_OPCODE(name, function) void function(Decoder &decoder);
#include "test/softgpu/Opcodes.def"
#undef SOFTGPU_OPCODE
// Parts of opcodes that these share with others.
void decodeBulkCopy(Decoder &decoder);
void decodeClusterBarrier(Decoder &decoder);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_DECODER_H
