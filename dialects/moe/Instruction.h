//===- Instruction.h - The instructions that an op becomes ------*- C++ -*-===//
//
// LowerableOpInterface::getInstructions() describes them once: operands,
// parameters and work. Kernel selection, the cost model and lower-to-plan all
// read this description; nothing else knows how an op is decomposed. Ops build
// it with the named builders of dialects/moe/InstructionBuilders.h.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MOE_INSTRUCTION_H
#define MOE_DIALECTS_MOE_INSTRUCTION_H

#include "dialects/moe/InstructionWork.h"
#include "kernels/OpCode.h"
#include "mlir/IR/Operation.h"
#include "runtime/schema/OpTable.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::moe {

/// A buffer that an op needs besides its results; see Instructions::temporary.
struct Temporary {
  unsigned index;
};

/// An operand of an instruction. There is no default: a builder without one of
/// its operands does not compile.
class Operand {
public:
  enum class Kind : uint8_t {
    Absent,
    Value,     ///< An operand or result of the op: activations, weight, cache.
    Temporary, ///< A buffer that Instructions::temporary() declared.
    State,     ///< The state that a StateOpInterface keeps.
    RopeTable, ///< The function's table for a #moe.rope.
    RopeFrequencies, ///< The inverse frequencies of a #moe.rope.
    ExpertMap,       ///< The map of a #moe.expert_slice.
    ExpertOffsets,   ///< Offsets of each expert's slots.
    ExpertSlots,     ///< The slots in the order of experts.
    Constant, ///< Constant numbers, found by the name that the op gives them.
  };
  /// The form in which activations are read or written.
  enum class Form : uint8_t {
    Plain,
    Activation, ///< The encoding that the instruction's gemms read.
    Quantized,  ///< Activations encoded in 8 bits.
  };

  Operand(std::nullopt_t) : kind_(Kind::Absent) {}
  /// A null value is an absent operand.
  Operand(Value value)
      : kind_(value ? Kind::Value : Kind::Absent), value_(value) {}
  Operand(Temporary temporary)
      : kind_(Kind::Temporary), temporary_(temporary) {}

  /// The activations that the instruction's gemms multiply: `source`, or its
  /// 8-bit form if they read that.
  static Operand activation(Operand source) {
    return source.as(Form::Activation);
  }
  static Operand quantized(Operand source) {
    return source.as(Form::Quantized);
  }
  static Operand state() { return Operand(Kind::State); }
  static Operand ropeTable(Attribute rope) {
    return Operand(Kind::RopeTable, {}, rope);
  }
  static Operand ropeFrequencies(Attribute rope) {
    return Operand(Kind::RopeFrequencies, {}, rope);
  }
  static Operand expertMap(Attribute slice) {
    return Operand(Kind::ExpertMap, {}, slice);
  }
  static Operand expertOffsets(Value ids) {
    return Operand(Kind::ExpertOffsets, ids);
  }
  static Operand expertSlots(Value ids) {
    return Operand(Kind::ExpertSlots, ids);
  }

  /// Numbers under a name, of an array of F64, that tells them from others of
  /// the op. The name must outlive the operand.
  static Operand constant(StringRef name, Attribute numbers) {
    Operand operand(Kind::Constant, {}, numbers);
    operand.name_ = name;
    return operand;
  }

  Kind kind() const { return kind_; }
  Form form() const { return form_; }
  /// The value, or the ids of expert lists.
  Value value() const { return value_; }
  Temporary temporary() const { return temporary_; }
  /// The #moe.rope or #moe.expert_slice, or the numbers of a constant.
  Attribute attribute() const { return attribute_; }
  StringRef name() const { return name_; } ///< A constant's name.
  /// The operand in another form.
  Operand as(Form form) const {
    Operand other = *this;
    other.form_ = form;
    return other;
  }
  bool operator==(const Operand &other) const {
    return kind_ == other.kind_ && form_ == other.form_ &&
           value_ == other.value_ &&
           temporary_.index == other.temporary_.index &&
           attribute_ == other.attribute_;
  }

private:
  explicit Operand(Kind kind, Value value = {}, Attribute attribute = {})
      : kind_(kind), value_(value), attribute_(attribute) {}

  Kind kind_;
  Form form_ = Form::Plain;
  Temporary temporary_{0};
  Value value_;
  Attribute attribute_;
  StringRef name_;
};

/// An instruction that an op becomes.
struct Instruction {
  moek::OpCode op;
  /// Operands and parameters in the order of kernels/Ops.def.
  SmallVector<Operand, 6> operands = {};
  SmallVector<int64_t, 4> ints = {};
  SmallVector<double, 2> floats = {};
  InstructionWork work = {};
  /// The kernel exists, but this op does not need the instruction: it is not
  /// emitted.
  bool omitted = false;

  const moert::OpSpec &spec() const;
  /// Returns the integer parameter `name`, which the instruction must have.
  int64_t integer(std::string_view name) const;
  /// The weights that its gemms read, in the order of operands.
  SmallVector<Value, 2> gemmWeights() const;
  /// The operand that its gemms read in an encoding of theirs; null for
  /// instructions without gemms and for those whose kernels encode it.
  const Operand *activation() const;
};

/// A result or temporary of an op that needs a buffer: F32 rows unless said.
struct BufferShape {
  Value result;       ///< Null for a temporary.
  std::string suffix; ///< Follows the op's label in the buffer's name.
  moek::Encoding encoding;
  int64_t cols;
  int64_t rowsPerToken = 1, fixedRows = 0;
  StringRef device = {}; ///< "": the device of the op.
};

/// All instructions of an op in the order in which they run, and the buffers
/// that they need. Buffers are created in the order of their declaration; a
/// result is declared by the first instruction that has it as an operand.
class Instructions {
public:
  explicit Instructions(Operation *op) : op_(op) {}

  Temporary temporary(StringRef suffix, int64_t cols,
                      moek::Encoding encoding = moek::Encoding::F32,
                      int64_t rowsPerToken = 1, int64_t fixedRows = 0);
  /// Declares a result before an instruction has it, or on another device.
  void declare(Value result, StringRef suffix = "", StringRef device = "");
  /// Lets `result` overwrite `x`, of the same shape, which must have no later
  /// use.
  void overwrite(Value result, Value x) { overwritten_.push_back({result, x}); }
  /// Does the same if `x` has no later use; returns whether `result` overwrites
  /// it.
  bool reuse(Value result, Value x);
  /// Records the slot lists that an ExpertGroup instruction wrote for a
  /// router's ids.
  void setExpertLists(Value ids, Temporary offsets, Temporary slots) {
    expertLists_.push_back({ids, offsets, slots});
  }
  void add(Instruction instruction, InstructionWork work = {});

  struct Overwrite {
    Value result, x;
  };
  struct ExpertLists {
    Value ids;
    Temporary offsets, slots;
  };
  ArrayRef<BufferShape> buffers() const { return buffers_; }
  ArrayRef<Overwrite> overwritten() const { return overwritten_; }
  ArrayRef<ExpertLists> expertLists() const { return expertLists_; }

  ArrayRef<Instruction> all() const { return list_; }
  size_t size() const { return list_.size(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  Instruction &back() { return list_.back(); }

private:
  Operation *op_;
  std::vector<Instruction> list_;
  SmallVector<BufferShape, 4> buffers_;
  SmallVector<Overwrite, 1> overwritten_;
  SmallVector<ExpertLists, 1> expertLists_;
};

/// Sums the work of all instructions.
Cost sumWork(const Instructions &instructions);

/// Returns whether `op` may overwrite its operand `x`: an op of the same block
/// computes `x`, and no op after `op` reads it.
bool diesIn(Operation *op, Value x);

/// Returns whether a router groups the slots of its choice `ids` by expert once
/// for all that read them. Slices of the experts group their own, and
/// moe.split_choices chooses some of them.
bool isGrouped(Value ids);

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_INSTRUCTION_H
