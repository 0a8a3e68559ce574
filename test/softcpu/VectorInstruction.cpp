//===- VectorInstruction.cpp - Decodes AVX-512 instructions ---------------===//

#include "test/softcpu/VectorOperations.h"

#include <cstdio>
#include <cstdlib>
#include <unordered_map>

namespace moek::test {

namespace {
using Source = VectorInstruction::Source;

constexpr uint32_t key(ZydisMnemonic mnemonic, Form form) {
  return uint32_t(mnemonic) << 8 | uint32_t(form);
}

using Table = std::unordered_map<uint32_t, VectorInstruction::Execute>;

VectorInstruction::Execute find(ZydisMnemonic mnemonic, Form form) {
  static const Table table = [] {
    Table all;
    for (auto rows :
         {integerRows(), floatRows(), moveRows(), elementRows(), maskRows(),
          shuffleRows(), conversionRows(), scalarConversionRows()})
      for (const VectorRow &row : rows)
        if (!all.emplace(key(row.mnemonic, row.form), row.execute).second)
          fault(ZydisMnemonicGetString(row.mnemonic), nullptr);
    return all;
  }();
  auto found = table.find(key(mnemonic, form));
  return found == table.end() ? nullptr : found->second;
}

void executeRounded(const VectorInstruction &in, Registers &regs) {
  constexpr unsigned kControl = 0x6000;
  unsigned before = _mm_getcsr();
  _mm_setcsr((before & ~kControl) | unsigned(in.rounding) << 13);
  in.rounded(in, regs);
  _mm_setcsr(before);
}

bool isGeneral(ZydisRegister reg) {
  ZydisRegisterClass kind = ZydisRegisterGetClass(reg);
  return kind == ZYDIS_REGCLASS_GPR8 || kind == ZYDIS_REGCLASS_GPR16 ||
         kind == ZYDIS_REGCLASS_GPR32 || kind == ZYDIS_REGCLASS_GPR64;
}

bool isMask(ZydisRegister reg) {
  return ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_MASK;
}

/// Whether a memory source is read as a whole whatever the mask: exception
/// types with "no fault suppression".
bool readsWhole(ZydisExceptionClass type) {
  switch (type) {
  case ZYDIS_EXCEPTION_CLASS_E1NF:
  case ZYDIS_EXCEPTION_CLASS_E2NF:
  case ZYDIS_EXCEPTION_CLASS_E3NF:
  case ZYDIS_EXCEPTION_CLASS_E4NF:
  case ZYDIS_EXCEPTION_CLASS_E5NF:
  case ZYDIS_EXCEPTION_CLASS_E6NF:
  case ZYDIS_EXCEPTION_CLASS_E9NF:
  case ZYDIS_EXCEPTION_CLASS_E10NF:
  case ZYDIS_EXCEPTION_CLASS_E11NF:
    return true;
  default:
    return false;
  }
}

/// Reads the operands of one instruction in order.
class OperandReader {
public:
  OperandReader(const ZydisDecodedInstruction &instruction, uint64_t address)
      : instruction_(instruction), at_(address) {}

  bool read(const ZydisDecodedOperand &operand) {
    bool isDestination = index_++ == 0;
    if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
      result.immediate = uint8_t(operand.imm.value.u);
      hasImmediate_ = true;
      return true;
    }
    if (!isDestination) {
      result.left = result.right;
      ++sources_;
    }
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER)
      return readRegister(operand, isDestination);
    return operand.type == ZYDIS_OPERAND_TYPE_MEMORY &&
           readMemory(operand, isDestination);
  }

  Form form() const {
    if (form_ == Form::Vector && hasImmediate_ && sources_ == 1)
      return Form::Immediate;
    return form_;
  }

  VectorInstruction result = {};

private:
  bool readRegister(const ZydisDecodedOperand &operand, bool isDestination) {
    uint8_t number = uint8_t(ZydisRegisterGetId(operand.reg.value));
    (isDestination ? result.to : result.right) = number;
    if (isGeneral(operand.reg.value)) {
      form_ = isDestination ? Form::ToGeneral : Form::FromGeneral;
      result.generalBytes = uint8_t(operand.size / 8);
    }
    return true;
  }

  bool readMemory(const ZydisDecodedOperand &operand, bool isDestination) {
    const ZydisDecodedOperandMem &memory = operand.mem;
    result.memoryBytes = uint8_t(operand.size / 8);
    if (isDestination)
      form_ = Form::Store;
    else
      result.source = source();
    if (instruction_.address_width != 64 ||
        memory.segment == ZYDIS_REGISTER_FS ||
        memory.segment == ZYDIS_REGISTER_GS)
      return false;
    result.address = addressOf(operand, at_ + instruction_.length);
    if (memory.type == ZYDIS_MEMOP_TYPE_VSIB) {
      result.left = uint8_t(result.address.index);
      result.address.index = Address::kNone;
    }
    return true;
  }

  Source source() const {
    const ZydisDecodedInstructionAvx &avx = instruction_.avx;
    if (avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID &&
        !avx.broadcast.is_static)
      return Source::Broadcast;
    if (avx.mask.reg == ZYDIS_REGISTER_NONE ||
        avx.mask.reg == ZYDIS_REGISTER_K0 ||
        readsWhole(instruction_.meta.exception_class))
      return Source::Memory;
    return Source::ActiveMemory;
  }

  const ZydisDecodedInstruction &instruction_;
  uint64_t at_;
  Form form_ = Form::Vector;
  bool hasImmediate_ = false;
  int index_ = 0, sources_ = 0;
};
} // namespace

void fault(const char *what, const void *address) {
  std::fprintf(stderr, "software CPU: %s, at %p\n", what, address);
  std::abort();
}

Address addressOf(const ZydisDecodedOperand &operand, uint64_t next) {
  const ZydisDecodedOperandMem &memory = operand.mem;
  Address address;
  address.displacement = memory.disp.value;
  if (memory.base == ZYDIS_REGISTER_RIP)
    address.displacement += int64_t(next);
  else if (memory.base != ZYDIS_REGISTER_NONE)
    address.base = ZydisRegisterGetId(memory.base);
  if (memory.index != ZYDIS_REGISTER_NONE) {
    address.index = ZydisRegisterGetId(memory.index);
    address.scale = uint8_t(std::countr_zero(memory.scale));
  }
  return address;
}

bool isVectorInstruction(const ZydisDecodedInstruction &instruction,
                         const ZydisDecodedOperand *operands) {
  if (instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX ||
      instruction.meta.isa_set == ZYDIS_ISA_SET_AVX_VNNI)
    return true;
  for (int i = 0; i < instruction.operand_count; ++i)
    if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
        isMask(operands[i].reg.value))
      return true;
  return false;
}

std::optional<VectorInstruction>
decodeVectorInstruction(const ZydisDecodedInstruction &instruction,
                        const ZydisDecodedOperand *operands, uint64_t address) {
  OperandReader reader(instruction, address);
  for (int i = 0; i < instruction.operand_count; ++i) {
    if (operands[i].visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN ||
        operands[i].encoding == ZYDIS_OPERAND_ENCODING_MASK)
      continue;
    if (!reader.read(operands[i]))
      return std::nullopt;
  }
  VectorInstruction &in = reader.result;
  in.execute = find(instruction.mnemonic, reader.form());
  if (!in.execute)
    return std::nullopt;
  const ZydisDecodedInstructionAvx &avx = instruction.avx;
  in.bytes = uint8_t(avx.vector_length / 8);
  if (isMask(avx.mask.reg))
    in.mask = uint8_t(ZydisRegisterGetId(avx.mask.reg));
  in.zeroing = avx.mask.mode == ZYDIS_MASK_MODE_ZEROING ||
               avx.mask.mode == ZYDIS_MASK_MODE_CONTROL_ZEROING;
  in.full = in.mask == 0 && in.bytes == sizeof(Vector);
  if (avx.rounding.mode != ZYDIS_ROUNDING_MODE_INVALID) {
    in.rounding = uint8_t(avx.rounding.mode - ZYDIS_ROUNDING_MODE_RN);
    in.rounded = in.execute;
    in.execute = executeRounded;
  }
  return in;
}

} // namespace moek::test
