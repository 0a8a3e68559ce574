#include "test/amx/AmxExecutor.h"

#include "kernels/HostAmx.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <unistd.h>

namespace moek::test {

namespace {
// A signal handler receives no context of ours, so its state is static; the
// constant initialisers keep it free of constructors and locks.
constinit thread_local TileState threadTiles;
constinit std::atomic<uint64_t> executed[kTileOps] = {};
constinit std::atomic<uint64_t> macs = 0, capacity = 0;
constinit struct sigaction previous = {};
constinit int installed = 0;
static_assert(std::atomic<uint64_t>::is_always_lock_free);

void count(std::atomic<uint64_t> &counter, uint64_t by) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

/// Writes text to standard error without locks or allocation.
class Message {
public:
  Message &operator<<(std::string_view text) {
    size_t fits = std::min(text.size(), sizeof(text_) - length_);
    std::memcpy(text_ + length_, text.data(), fits);
    length_ += fits;
    return *this;
  }
  Message &number(uint64_t value, int base = 10) {
    char digits[20];
    auto end = std::to_chars(digits, digits + sizeof(digits), value, base).ptr;
    return *this << std::string_view(digits, size_t(end - digits));
  }
  void write() const {
    [[maybe_unused]] ssize_t ignored = ::write(2, text_, length_);
  }

private:
  char text_[1024];
  size_t length_ = 0;
};

[[noreturn]] void fail(const char *fault, const TileInstruction &instruction,
                       uint64_t at) {
  Message message;
  message << "\nAMX executor: " << tileOpName(instruction.op) << " at 0x";
  message.number(at, 16) << " raises " << fault << "\n  operands";
  for (int tile : {instruction.tile, instruction.left, instruction.right})
    if (tile != TileInstruction::kNone)
      (message << " tmm").number(uint64_t(tile));
  const TileConfig &config = threadTiles.config();
  (message << "; palette ").number(config.palette);
  (message << ", start_row ").number(config.startRow);
  message << ", rows x bytes";
  for (int i = 0; i < kTiles; ++i) {
    (message << " ").number(config.rows[i]);
    (message << "x").number(config.rowBytes[i]);
  }
  message << "\n";
  message.write();
  std::abort();
}

/// Executes the instruction; returns the fault, or null.
const char *execute(const TileInstruction &i, const uint64_t *general,
                    uint64_t next) {
  uint64_t address = uint64_t(int64_t(i.displacement));
  if (i.base == TileInstruction::kRip)
    address += next;
  else if (i.base != TileInstruction::kNone)
    address += general[i.base];
  uint64_t index =
      i.index == TileInstruction::kNone ? 0 : general[i.index] << i.scale;
  switch (i.op) {
  case TileOp::LdTileCfg:
    return threadTiles.loadConfig(
        reinterpret_cast<const void *>(address + index));
  case TileOp::StTileCfg:
    threadTiles.storeConfig(reinterpret_cast<void *>(address + index));
    return nullptr;
  case TileOp::TileRelease:
    threadTiles.release();
    return nullptr;
  case TileOp::TileZero:
    return threadTiles.zero(i.tile);
  case TileOp::TileLoadD:
  case TileOp::TileLoadDT1:
    return threadTiles.load(
        i.tile, reinterpret_cast<const std::byte *>(address), int64_t(index));
  case TileOp::TileStoreD:
    return threadTiles.store(i.tile, reinterpret_cast<std::byte *>(address),
                             int64_t(index));
  default:
    count(macs, uint64_t(threadTiles.productSize(i.op, i.left, i.right)));
    count(capacity, i.op == TileOp::TdpBf16ps ? 16 * 16 * 32 : 16 * 16 * 64);
    return threadTiles.multiply(i.op, i.tile, i.left, i.right);
  }
}

/// Handles the signal as if there were no executor.
void passOn(int signal, siginfo_t *info, void *context) {
  if (previous.sa_flags & SA_SIGINFO)
    return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(signal);
  // The instruction is executed again, now without a handler. (The kernel does
  // not let a fault be ignored.)
  struct sigaction byDefault = {};
  byDefault.sa_handler = SIG_DFL;
  ::sigaction(signal, &byDefault, nullptr);
}

void onIllegalInstruction(int signal, siginfo_t *info, void *opaque) {
  auto &context = *static_cast<ucontext_t *>(opaque);
  greg_t &rip = context.uc_mcontext.gregs[REG_RIP];
  auto instruction =
      decodeTileInstruction(reinterpret_cast<const uint8_t *>(rip));
  if (!instruction)
    return passOn(signal, info, opaque);
  constexpr int order[16] = {
      REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  uint64_t general[16];
  for (int r = 0; r < 16; ++r)
    general[r] = uint64_t(context.uc_mcontext.gregs[order[r]]);
  executeTileInstruction(*instruction, general, uint64_t(rip));
  rip += instruction->length;
}
} // namespace

void executeTileInstruction(const TileInstruction &instruction,
                            const uint64_t *general, uint64_t at) {
  if (const char *fault =
          execute(instruction, general, at + uint64_t(instruction.length)))
    fail(fault, instruction, at);
  count(executed[size_t(instruction.op)], 1);
}

uint64_t TileCounts::products() const {
  uint64_t sum = 0;
  for (TileOp op : {TileOp::TdpBssd, TileOp::TdpBsud, TileOp::TdpBusd,
                    TileOp::TdpBuud, TileOp::TdpBf16ps})
    sum += of(op);
  return sum;
}

uint64_t TileCounts::loads() const {
  return of(TileOp::TileLoadD) + of(TileOp::TileLoadDT1);
}

AmxExecutor::AmxExecutor() {
  if (isNative() || installed++ > 0)
    return;
  struct sigaction action = {};
  action.sa_sigaction = onIllegalInstruction;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGILL, &action, &previous);
}

AmxExecutor::~AmxExecutor() {
  if (!isNative() && --installed == 0)
    ::sigaction(SIGILL, &previous, nullptr);
}

bool AmxExecutor::isNative() {
  static const bool native = amxRefusalFor(hostAmxSupport()).empty();
  return native;
}

TileCounts AmxExecutor::counts() {
  TileCounts result = {};
  for (int i = 0; i < kTileOps; ++i)
    result.executed[size_t(i)] = executed[i].load(std::memory_order_relaxed);
  result.macs = macs.load(std::memory_order_relaxed);
  result.capacity = capacity.load(std::memory_order_relaxed);
  return result;
}

void AmxExecutor::resetCounts() {
  for (auto &counter : executed)
    counter.store(0, std::memory_order_relaxed);
  macs.store(0, std::memory_order_relaxed);
  capacity.store(0, std::memory_order_relaxed);
}

} // namespace moek::test

namespace moek {

/// Replaces kernels/HostAmx.cpp: tile instructions run here.
std::string_view amxRefusal() {
  static test::AmxExecutor executor;
  return {};
}

} // namespace moek
