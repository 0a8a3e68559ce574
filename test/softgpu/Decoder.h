//===- Decoder.h - From PTX instructions to Ops -----------------*- C++ -*-===//
//
// One decode function an opcode (Opcodes.def) takes its modifiers one by one,
// names its operands, and emits Ops. What it leaves over fails the load.
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

  // -- What decode functions use.
  const PtxInstruction &instruction() const { return *instruction_; }
  [[noreturn]] void fail(const std::string &what) const;

  /// Takes the next modifier if it is `name`.
  bool accept(std::string_view name);
  /// Takes the next modifier, one of `names`; its index. Fails on others.
  int choose(std::initializer_list<std::string_view> names);
  /// The same, or `otherwise` where the next modifier is none of them.
  int chooseOr(int otherwise, std::initializer_list<std::string_view> names);
  /// The next modifier, a type.
  PtxType type();
  std::string_view peek(size_t ahead = 0) const;
  void skip() { ++modifier_; }

  size_t operandCount() const { return instruction_->operands.size(); }
  const PtxOperand &operand(size_t index) const;
  void needOperands(size_t least, size_t most) const;

  /// Starts an Op of this instruction.
  Op &begin(Handler handler, OpClass opClass);
  /// Its next result or source: a register of `bytes` (0: a predicate).
  void result(const PtxOperand &operand, int bytes);
  void result(size_t index, int bytes) { result(operand(index), bytes); }
  /// A source may be a constant, which is of `type`.
  void source(const PtxOperand &operand, PtxType type);
  void source(size_t index, PtxType type) { source(operand(index), type); }
  void source(size_t index, int bytes) { source(operand(index), bits(bytes)); }
  void sourcePlace(Place place);
  void resultPlace(Place place);
  /// The lanes that the last source names come together, or all that live.
  void needNamedLanes();
  void needAllLanes();
  static PtxType bits(int bytes) {
    return {bytes ? PtxType::Bits : PtxType::Pred,
            uint8_t(bytes ? bytes * 8 : 1)};
  }

  /// handler(result, sources...) over operands 0, 1, ...
  Op &simple(Handler handler, OpClass opClass, int resultBytes,
             std::initializer_list<PtxType> sources);

  /// An address operand's base as a source; sets imm and addressBytes.
  void address(Op &op, const PtxOperand &operand);
  /// The state space an address without a register lies in, if it is a
  /// variable's.
  std::optional<Space> spaceOf(const PtxOperand &operand) const;

  Place newRegister(int bytes);
  Place constant(uint64_t value, int bytes);
  /// Bytes of the register that an operand names; of a constant 0.
  int registerBytes(const PtxOperand &operand) const;
  /// Fails unless the module's .target has the instruction.
  void needArch(int arch) const;
  uint64_t paramBytes() const { return kernel_.paramBytes; }
  /// The condition code's carry, a predicate.
  Place carryFlag();

  /// A branch of the op to the label named.
  void branchTo(Op &op, const std::string &label);
  void branchTable(Op &op, const std::string &table);
  void callFunction();
  /// ret of an inlined function, or exit of the kernel.
  void leaveFunction();
  /// Call parameters live in local memory.
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
  struct Frame { ///< A function being inlined.
    const PtxFunction *function = nullptr;
    std::map<std::string, uint32_t> labels;
    std::vector<std::pair<uint32_t, std::string>> branches; ///< Op, label.
    std::vector<std::pair<size_t, std::string>> targets;    ///< Of tables.
    std::vector<uint32_t> leaves; ///< Ops that go behind it.
    std::vector<std::map<std::string, Register>>
        registers; ///< By scope, inner last.
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

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_DECODER_H
