//===- CodeArena.h - Memory for generated machine code ----------*- C++ -*-===//

#ifndef MOE_TEST_SOFTCPU_CODEARENA_H
#define MOE_TEST_SOFTCPU_CODEARENA_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace moek::test {

/// Writable and executable memory within 1 GiB of the program's own code, so
/// that both reach each other by RIP-relative operands. Its first bytes are
/// data that the code refers to.
class CodeArena {
public:
  /// If the system refuses the memory, data() is null.
  CodeArena(size_t dataBytes, size_t codeBytes);
  ~CodeArena();
  CodeArena(const CodeArena &) = delete;
  CodeArena &operator=(const CodeArena &) = delete;

  std::byte *data() const { return memory_; }
  /// Address of the next byte.
  std::byte *position() const { return next_; }
  size_t room() const { return size_t(end_ - next_); }
  /// Discards the code from `position` on.
  void rewind(std::byte *position) { next_ = position; }

  void put(std::initializer_list<int> bytes);
  void put(std::span<const uint8_t> bytes);
  void put32(int32_t value);
  /// Writes `opcode` and a ModRM byte with register field `reg` and a
  /// RIP-relative memory operand at `target`.
  void putRelative(std::initializer_list<int> opcode, int reg,
                   const void *target);

private:
  std::byte *memory_ = nullptr, *next_ = nullptr, *end_ = nullptr;
};

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_CODEARENA_H
