//===- NativeRun.cpp - Runs instructions natively -------------------------===//

#include "test/softcpu/NativeRun.h"

#include <bit>
#include <cstring>

namespace moek::test {

namespace {
constexpr int kRsp = 4;
/// rbx, rbp, r12 to r15: the registers that a function must preserve.
constexpr uint32_t kCalleeSaved = 1u << 3 | 1u << 5 | 0xf000u;
constexpr uint32_t kStatusFlags = ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF |
                                  ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF |
                                  ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF;

ArenaData &dataOf(const CodeArena &arena) {
  return *reinterpret_cast<ArenaData *>(arena.data());
}

template <class Do> void forEachBit(uint32_t bits, Do &&act) {
  for (; bits; bits &= bits - 1)
    act(std::countr_zero(bits));
}

void putPush(CodeArena &arena, int reg) {
  if (reg >= 8)
    arena.put({0x41});
  arena.put({0x50 | (reg & 7)});
}

void putPop(CodeArena &arena, int reg) {
  if (reg >= 8)
    arena.put({0x41});
  arena.put({0x58 | (reg & 7)});
}

void putLoad(CodeArena &arena, int reg, const void *from) {
  arena.putRelative({reg >= 8 ? 0x4c : 0x48, 0x8b}, reg, from);
}

void putStore(CodeArena &arena, int reg, const void *to) {
  arena.putRelative({reg >= 8 ? 0x4c : 0x48, 0x89}, reg, to);
}

/// Moves between a YMM register and memory.
void putVectorLoad(CodeArena &arena, int reg, const void *from) {
  arena.putRelative({0xc5, reg >= 8 ? 0x7e : 0xfe, 0x6f}, reg, from);
}
void putVectorStore(CodeArena &arena, int reg, void *to) {
  arena.putRelative({0xc5, reg >= 8 ? 0x7e : 0xfe, 0x7f}, reg, to);
}

/// Move between an XMM register and memory, without changing the upper half of
/// the YMM register.
void putHalfLoad(CodeArena &arena, int reg, const void *from) {
  if (reg >= 8)
    arena.put({0x44});
  arena.putRelative({0x0f, 0x10}, reg, from);
}
void putHalfStore(CodeArena &arena, int reg, void *to) {
  if (reg >= 8)
    arena.put({0x44});
  arena.putRelative({0x0f, 0x11}, reg, to);
}

bool isVectorRegister(ZydisRegister reg) {
  ZydisRegisterClass kind = ZydisRegisterGetClass(reg);
  return kind == ZYDIS_REGCLASS_XMM || kind == ZYDIS_REGCLASS_YMM;
}

/// Returns the number of the general register that contains `reg`, or -1.
int generalRegister(ZydisRegister reg) {
  ZydisRegister whole =
      ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  return ZydisRegisterGetClass(whole) == ZYDIS_REGCLASS_GPR64
             ? ZydisRegisterGetId(whole)
             : -1;
}

/// Returns whether the operands decide if the instruction writes the flags. For
/// example, a shift by cl leaves them unchanged if cl is 0.
bool mayKeepFlags(const ZydisDecodedInstruction &instruction,
                  const ZydisDecodedOperand *operands) {
  ZydisInstructionCategory category = instruction.meta.category;
  if (category != ZYDIS_CATEGORY_SHIFT && category != ZYDIS_CATEGORY_ROTATE)
    return instruction.attributes &
           (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
            ZYDIS_ATTRIB_HAS_REPNE);
  for (int i = 0; i < instruction.operand_count; ++i)
    if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
        operands[i].reg.value == ZYDIS_REGISTER_CL)
      return true;
  return false;
}
} // namespace

void NativeRun::useFlags(const ZydisDecodedInstruction &instruction,
                         const ZydisDecodedOperand *operands) {
  const ZydisAccessedFlags *flags = instruction.cpu_flags;
  if (!flags)
    return;
  uint32_t written =
      (flags->modified | flags->set_0 | flags->set_1 | flags->undefined) &
      kStatusFlags;
  bool writesAll =
      written == kStatusFlags && !mayKeepFlags(instruction, operands);
  bool keepsSome = written && !writesAll;
  if (!setsFlags_ && (keepsSome || flags->tested & kStatusFlags))
    needsFlags_ = true;
  setsFlags_ |= written != 0;
}

bool NativeRun::add(const ZydisDecodedInstruction &instruction,
                    const ZydisDecodedOperand *operands,
                    const uint8_t *address) {
  Copied copied{address, instruction.length, 0};
  uint32_t general = 0, vectors = 0, written = 0;
  for (int i = 0; i < instruction.operand_count; ++i) {
    const ZydisDecodedOperand &operand = operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      for (ZydisRegister reg : {operand.mem.base, operand.mem.index})
        if (int number = generalRegister(reg); number >= 0)
          general |= 1u << number;
      if (operand.mem.base == ZYDIS_REGISTER_EIP)
        return false;
      if (operand.mem.base == ZYDIS_REGISTER_RIP)
        copied.displacementAt = instruction.raw.disp.offset;
    } else if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      ZydisRegister reg = operand.reg.value;
      if (int number = generalRegister(reg); number >= 0) {
        general |= 1u << number;
      } else if (isVectorRegister(reg)) {
        uint32_t bit = 1u << ZydisRegisterGetId(reg);
        vectors |= bit;
        if (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
          written |= bit;
      } else if (ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_ZMM ||
                 ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_MASK ||
                 reg == ZYDIS_REGISTER_RIP) {
        return false;
      }
    }
  }
  if (vectors >> 16)
    return false;
  general_ |= general;
  vectors_ |= vectors;
  if (instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX) {
    zeroAbove_ |= written;
    wide_ |= vectors != 0;
  }
  useFlags(instruction, operands);
  instructions_.push_back(copied);
  return true;
}

void NativeRun::writeEntry(CodeArena &arena) const {
  ArenaData &data = dataOf(arena);
  forEachBit(general_ & kCalleeSaved, [&](int reg) { putPush(arena, reg); });
  if (needsFlags_) {
    arena.putRelative({0xff}, 6, &data.registers.flags); // push
    arena.put({0x9d});                                   // popfq
  }
  forEachBit(vectors_, [&](int reg) {
    (wide_ ? putVectorLoad : putHalfLoad)(arena, reg,
                                          &data.registers.vector[reg]);
  });
  if (general_ & 1u << kRsp)
    putStore(arena, kRsp, &data.hostStack);
  forEachBit(general_, [&](int reg) {
    putLoad(arena, reg, &data.registers.general[reg]);
  });
}

void NativeRun::writeExit(CodeArena &arena) const {
  // Nothing may change the flags before they are saved, and nothing may be
  // pushed before our stack is restored.
  ArenaData &data = dataOf(arena);
  forEachBit(general_, [&](int reg) {
    putStore(arena, reg, &data.registers.general[reg]);
  });
  if (general_ & 1u << kRsp)
    putLoad(arena, kRsp, &data.hostStack);
  if (setsFlags_) {
    arena.put({0x9c});                                   // pushfq
    arena.putRelative({0x8f}, 0, &data.registers.flags); // pop
  }
  forEachBit(vectors_, [&](int reg) {
    (wide_ ? putVectorStore : putHalfStore)(arena, reg,
                                            &data.registers.vector[reg]);
  });
  if (zeroAbove_) {
    arena.put({0xc5, 0xf9, 0xef, 0xc0}); // vpxor xmm0, xmm0, xmm0
    forEachBit(zeroAbove_, [&](int reg) {
      putVectorStore(arena, 0, data.registers.vector[reg].bytes + 32);
    });
  }
  if (wide_)
    arena.put({0xc5, 0xf8, 0x77}); // vzeroupper
  for (int reg = 15; reg >= 0; --reg)
    if (general_ & kCalleeSaved & 1u << reg)
      putPop(arena, reg);
  arena.put({0xc3}); // ret
}

NativeRun::Code NativeRun::write(CodeArena &arena) const {
  std::byte *code = arena.position();
  writeEntry(arena);
  for (const Copied &copied : instructions_) {
    std::byte *begin = arena.position();
    arena.put({copied.address, copied.length});
    if (!copied.displacementAt)
      continue;
    // Adjust the displacement, so that it refers to the same memory from here.
    std::byte *end = arena.position();
    int32_t displacement;
    std::memcpy(&displacement, copied.address + copied.displacementAt, 4);
    displacement +=
        int32_t(reinterpret_cast<const std::byte *>(copied.address) - begin);
    arena.rewind(begin + copied.displacementAt);
    arena.put32(displacement);
    arena.rewind(end);
  }
  writeExit(arena);
  return reinterpret_cast<Code>(code);
}

NativeRun::Code NativeRun::writeCall(CodeArena &arena) {
  NativeRun all;
  all.general_ = all.vectors_ = 0xffff;
  // The callee may have changed the upper parts of vectors; no caller may rely
  // on them.
  all.wide_ = all.needsFlags_ = all.setsFlags_ = true;
  std::byte *code = arena.position();
  all.writeEntry(arena);
  arena.putRelative({0xff}, 2, &dataOf(arena).target); // call
  all.writeExit(arena);
  return reinterpret_cast<Code>(code);
}

} // namespace moek::test
