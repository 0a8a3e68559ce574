//===- Translation.cpp - Decodes machine code block by block --------------===//

#include "test/softcpu/Translation.h"

#include <cstdio>
#include <cstdlib>

namespace moek::test {

namespace {
constexpr size_t kMaxInstructions = 256;

struct Decoded {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

const ZydisDecoder &decoder() {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder made;
    ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return made;
  }();
  return decoder;
}

[[noreturn]] void refuse(uint64_t address, const Decoded *decoded) {
  char text[128] = "bytes that are no instruction";
  if (decoded) {
    ZydisFormatter formatter;
    ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
    ZydisFormatterFormatInstruction(&formatter, &decoded->instruction,
                                    decoded->operands,
                                    decoded->instruction.operand_count_visible,
                                    text, sizeof(text), address, ZYAN_NULL);
  }
  std::fprintf(stderr,
               "\nsoftware CPU: cannot execute '%s' at 0x%llx; teach "
               "test/softcpu this instruction\n",
               text, static_cast<unsigned long long>(address));
  std::abort();
}

Decoded decode(uint64_t address) {
  Decoded decoded;
  if (ZYAN_FAILED(ZydisDecoderDecodeFull(
          &decoder(), reinterpret_cast<const void *>(address),
          ZYDIS_MAX_INSTRUCTION_LENGTH, &decoded.instruction,
          decoded.operands)))
    refuse(address, nullptr);
  return decoded;
}

/// Decodes the branch that ends a block; returns nothing for a kind that
/// compilers do not emit.
std::optional<BlockEnd> decodeEnd(const Decoded &decoded, uint64_t address) {
  const ZydisDecodedInstruction &instruction = decoded.instruction;
  const ZydisDecodedOperand &operand = decoded.operands[0];
  BlockEnd end;
  end.next = address + instruction.length;
  switch (instruction.meta.category) {
  case ZYDIS_CATEGORY_RET:
    end.kind = BlockEnd::Kind::Returns;
    if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
      end.releases = uint16_t(operand.imm.value.u);
    return end;
  case ZYDIS_CATEGORY_COND_BR: {
    // Only Jcc is translated: loops and jrcxz count or test rcx.
    bool isShort = instruction.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
                   instruction.opcode >> 4 == 7;
    bool isNear = instruction.opcode_map == ZYDIS_OPCODE_MAP_0F &&
                  instruction.opcode >> 4 == 8;
    if (!isShort && !isNear)
      return std::nullopt;
    end.kind = BlockEnd::Kind::Branches;
    end.condition = instruction.opcode & 15;
    break;
  }
  case ZYDIS_CATEGORY_CALL:
    end.kind = BlockEnd::Kind::Calls;
    break;
  default:
    end.kind = BlockEnd::Kind::Jumps;
    break;
  }
  switch (operand.type) {
  case ZYDIS_OPERAND_TYPE_IMMEDIATE:
    end.target = end.next + operand.imm.value.u;
    return end;
  case ZYDIS_OPERAND_TYPE_REGISTER:
    end.indirect = true;
    end.reg = int8_t(ZydisRegisterGetId(operand.reg.value));
    return end;
  case ZYDIS_OPERAND_TYPE_MEMORY:
    end.indirect = true;
    end.memory = addressOf(operand, end.next);
    return end;
  default:
    return std::nullopt;
  }
}

bool isBranch(const ZydisDecodedInstruction &instruction) {
  switch (instruction.meta.category) {
  case ZYDIS_CATEGORY_RET:
  case ZYDIS_CATEGORY_COND_BR:
  case ZYDIS_CATEGORY_UNCOND_BR:
  case ZYDIS_CATEGORY_CALL:
    return true;
  default:
    return false;
  }
}

bool isTileInstruction(const ZydisDecodedInstruction &instruction) {
  return instruction.meta.category == ZYDIS_CATEGORY_AMX_TILE;
}

/// Decodes an instruction that this CPU cannot execute into a step.
std::optional<BlockStep> decodeStep(const Decoded &decoded, uint64_t address) {
  const ZydisDecodedInstruction &instruction = decoded.instruction;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_VZEROUPPER)
    return ZeroUpper{};
  if (isTileInstruction(instruction)) {
    if (auto tile =
            decodeTileInstruction(reinterpret_cast<const uint8_t *>(address)))
      return TileStep{*tile, address};
  } else if (isVectorInstruction(instruction, decoded.operands)) {
    if (auto vector =
            decodeVectorInstruction(instruction, decoded.operands, address))
      return *vector;
  }
  return std::nullopt;
}

bool isForUs(const Decoded &decoded) {
  return decoded.instruction.mnemonic == ZYDIS_MNEMONIC_VZEROUPPER ||
         isTileInstruction(decoded.instruction) ||
         isVectorInstruction(decoded.instruction, decoded.operands);
}
} // namespace

Block &Translation::blockAt(uint64_t address) {
  std::unique_ptr<Block> &block = blocks_[address];
  if (!block)
    block = translate(address);
  return *block;
}

std::unique_ptr<Block> Translation::translate(uint64_t address) {
  auto block = std::make_unique<Block>();
  NativeRun run;
  auto finishRun = [&] {
    if (run.empty())
      return;
    if (arena_.room() < NativeRun::codeBytes(run.size())) {
      std::fprintf(stderr, "\nsoftware CPU: out of memory for code\n");
      std::abort();
    }
    block->steps.push_back(run.write(arena_));
    run = {};
  };
  for (size_t count = 0; count < kMaxInstructions; ++count) {
    Decoded decoded = decode(address);
    const ZydisDecodedInstruction &instruction = decoded.instruction;
    ++block->instructions;
    if (isBranch(instruction)) {
      finishRun();
      auto end = decodeEnd(decoded, address);
      if (!end)
        refuse(address, &decoded);
      block->end = *end;
      return block;
    }
    if (isForUs(decoded)) {
      finishRun();
      auto step = decodeStep(decoded, address);
      if (!step)
        refuse(address, &decoded);
      block->vectorInstructions +=
          std::holds_alternative<VectorInstruction>(*step);
      block->steps.push_back(*step);
    } else if (!run.add(instruction, decoded.operands,
                        reinterpret_cast<const uint8_t *>(address))) {
      refuse(address, &decoded);
    }
    address += instruction.length;
  }
  finishRun();
  block->end.next = address;
  return block;
}

} // namespace moek::test
