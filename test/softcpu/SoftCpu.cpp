//===- SoftCpu.cpp - A software CPU with AVX-512 and AMX ------------------===//

#include "test/softcpu/SoftCpu.h"

#include "test/amx/AmxExecutor.h"
#include "test/softcpu/Translation.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/mman.h>

// The linker defines these at the begin and end of this program's code.
extern "C" const char __executable_start, etext;

namespace moek::test {

namespace {
constexpr int kRax = 0, kRsp = 4;
/// rdi, rsi, rdx, rcx, r8, r9: the first arguments; the rest are on the stack.
constexpr int kArguments[] = {7, 6, 2, 1, 8, 9};
constexpr size_t kStackBytes = 1 << 20, kGuardBytes = 1 << 16;
/// More stack than a kernel uses.
constexpr size_t kFrameBytes = 1 << 18;
constexpr size_t kCodeBytes = 16 << 20;
constexpr size_t kDataBytes = (sizeof(ArenaData) + 4095) / 4096 * 4096;
/// The return address of called functions: no program has code there.
constexpr uint64_t kReturn = 0x10;

bool isOurs(uint64_t address) {
  return address >= reinterpret_cast<uint64_t>(&__executable_start) &&
         address < reinterpret_cast<uint64_t>(&etext);
}

struct Redirections {
  std::mutex mutex;
  std::unordered_map<uint64_t, uint64_t> targets;

  uint64_t of(uint64_t address) {
    std::lock_guard lock(mutex);
    auto found = targets.find(address);
    return found == targets.end() ? address : found->second;
  }
};

Redirections &redirections() {
  static Redirections instance;
  return instance;
}

/// Evaluates Jcc's condition, numbered as in its encoding.
bool holds(int condition, uint64_t flags) {
  bool carry = flags & ZYDIS_CPUFLAG_CF, zero = flags & ZYDIS_CPUFLAG_ZF;
  bool sign = flags & ZYDIS_CPUFLAG_SF, overflow = flags & ZYDIS_CPUFLAG_OF;
  bool result = false;
  switch (condition >> 1) {
  case 0:
    result = overflow;
    break;
  case 1:
    result = carry;
    break;
  case 2:
    result = zero;
    break;
  case 3:
    result = carry || zero;
    break;
  case 4:
    result = sign;
    break;
  case 5:
    result = flags & ZYDIS_CPUFLAG_PF;
    break;
  case 6:
    result = sign != overflow;
    break;
  case 7:
    result = zero || sign != overflow;
    break;
  }
  return result != bool(condition & 1);
}

/// The software CPU of a thread.
class Machine {
public:
  Machine();
  ~Machine();
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;

  bool works() const { return arena_.data() && stack_; }
  uint64_t call(uint64_t entry, std::span<const uint64_t> args);
  uint64_t executed() const { return executed_; }
  uint64_t executedInSoftware() const { return executedInSoftware_; }

private:
  Registers &registers() { return data().registers; }
  ArenaData &data() { return *reinterpret_cast<ArenaData *>(arena_.data()); }

  void run(uint64_t entry);
  void executeSteps(const Block &block);
  /// Returns the block that follows; null once the function has returned.
  Block *blockBehind(Block &block);
  uint64_t indirectTarget(const BlockEnd &end);
  /// Calls a function of another library; returns the address to continue at.
  uint64_t callOutside(uint64_t function);
  void push(uint64_t value);
  uint64_t pop();

  CodeArena arena_{kDataBytes, kCodeBytes};
  std::byte *stack_ = nullptr;
  Translation translation_{arena_};
  NativeRun::Code outside_ = nullptr;
  bool running_ = false;
  uint64_t executed_ = 0, executedInSoftware_ = 0;
};

Machine::Machine() {
  if (!arena_.data())
    return;
  void *memory =
      ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return;
  ::mprotect(memory, kGuardBytes, PROT_NONE);
  stack_ = static_cast<std::byte *>(memory);
  outside_ = NativeRun::writeCall(arena_);
}

Machine::~Machine() {
  if (stack_)
    ::munmap(stack_, kGuardBytes + kStackBytes);
}

void Machine::push(uint64_t value) {
  uint64_t &rsp = registers().general[kRsp];
  rsp -= sizeof(value);
  std::memcpy(reinterpret_cast<void *>(rsp), &value, sizeof(value));
}

uint64_t Machine::pop() {
  uint64_t &rsp = registers().general[kRsp];
  uint64_t value;
  std::memcpy(&value, reinterpret_cast<const void *>(rsp), sizeof(value));
  rsp += sizeof(value);
  return value;
}

uint64_t Machine::call(uint64_t entry, std::span<const uint64_t> args) {
  if (running_) {
    std::fprintf(stderr, "\nsoftware CPU: entered twice in one thread\n");
    std::abort();
  }
  running_ = true;
  Registers &r = registers();
  // A function must not depend on its stack's contents or on registers that
  // hold no argument: they contain NaNs and wild addresses.
  std::memset(&r, 0xa5, sizeof(r));
  std::memset(r.vector, 0xff, sizeof(r.vector));
  std::memset(stack_ + kGuardBytes + kStackBytes - kFrameBytes, 0xff,
              kFrameBytes);
  r.flags = 0x202;
  r.general[kRsp] =
      reinterpret_cast<uint64_t>(stack_ + kGuardBytes + kStackBytes);
  size_t inRegisters = std::min(args.size(), std::size(kArguments));
  for (size_t i = 0; i < inRegisters; ++i)
    r.general[kArguments[i]] = args[i];
  // At the call the stack pointer must be a multiple of 16.
  if ((args.size() - inRegisters) % 2)
    push(0);
  for (size_t i = args.size(); i-- > inRegisters;)
    push(args[i]);
  push(kReturn);
  run(entry);
  running_ = false;
  return r.general[kRax];
}

void Machine::executeSteps(const Block &block) {
  executed_ += block.instructions;
  executedInSoftware_ += block.vectorInstructions;
  for (const BlockStep &step : block.steps) {
    if (auto *native = std::get_if<NativeRun::Code>(&step))
      (*native)();
    else if (auto *vector = std::get_if<VectorInstruction>(&step))
      vector->execute(*vector, registers());
    else if (auto *tile = std::get_if<TileStep>(&step))
      executeTileInstruction(tile->instruction, registers().general,
                             tile->address);
    else
      for (int v = 0; v < 16; ++v)
        std::memset(registers().vector[v].bytes + 16, 0, 48);
  }
}

uint64_t Machine::indirectTarget(const BlockEnd &end) {
  if (end.reg >= 0)
    return registers().general[end.reg];
  uint64_t target;
  std::memcpy(&target, end.memory.of(registers()), sizeof(target));
  return target;
}

uint64_t Machine::callOutside(uint64_t function) {
  uint64_t returnsTo = pop();
  data().target = function;
  outside_();
  return returnsTo;
}

Block *Machine::blockBehind(Block &block) {
  const BlockEnd &end = block.end;
  bool taken = end.kind != BlockEnd::Kind::Goes;
  if (end.kind == BlockEnd::Kind::Branches)
    taken = holds(end.condition, registers().flags);
  uint64_t target = taken ? end.target : end.next;
  if (end.kind == BlockEnd::Kind::Returns) {
    target = pop();
    registers().general[kRsp] += end.releases;
  } else if (end.indirect) {
    target = indirectTarget(end);
  }
  if (end.kind == BlockEnd::Kind::Calls)
    push(end.next);
  Block::Successor &known = block.successors[taken];
  if (known.block && known.address == target)
    return known.block;
  uint64_t address = redirections().of(target);
  while (address != kReturn && !isOurs(address))
    address = callOutside(address);
  if (address == kReturn)
    return nullptr;
  Block &found = translation_.blockAt(address);
  if (isOurs(target))
    known = {target, &found};
  return &found;
}

void Machine::run(uint64_t entry) {
  Block *block = &translation_.blockAt(redirections().of(entry));
  do {
    executeSteps(*block);
    block = blockBehind(*block);
  } while (block);
}

/// Returns the thread's machine, created on first use.
Machine &machine() {
  thread_local Machine instance;
  return instance;
}
} // namespace

bool SoftCpu::isAvailable() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && machine().works();
}

uint64_t SoftCpu::call(uint64_t entry, std::span<const uint64_t> args) {
  return machine().call(entry, args);
}

uint64_t SoftCpu::executed() { return machine().executed(); }
uint64_t SoftCpu::executedInSoftware() {
  return machine().executedInSoftware();
}

void SoftCpu::redirect(uint64_t alias, uint64_t target) {
  std::lock_guard lock(redirections().mutex);
  redirections().targets[alias] = target;
}

} // namespace moek::test
