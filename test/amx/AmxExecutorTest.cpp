//===- AmxExecutorTest.cpp - Code that runs with the AMX executor ---------===//
//
// On a CPU with AMX the same code runs natively; only the counts and the
// messages of faults are not tested there.
//
//===----------------------------------------------------------------------===//

#include "test/amx/AmxExecutor.h"

#include "kernels/HostAmx.h"
#include "kernels/Registry.h"

#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <random>
#include <sys/mman.h>
#include <thread>

using namespace moek;
using namespace moek::test;

namespace {

TileConfig fullTiles() {
  TileConfig config = {};
  config.palette = 1;
  for (int i = 0; i < kTiles; ++i) {
    config.rows[i] = 16;
    config.rowBytes[i] = 64;
  }
  return config;
}

/// [16][64] random bytes.
struct Bytes {
  explicit Bytes(std::mt19937 &random) {
    for (uint8_t &byte : at)
      byte = uint8_t(random());
  }
  alignas(64) uint8_t at[1024];
};

class AmxExecutorTest : public testing::Test {
protected:
  void SetUp() override { AmxExecutor::resetCounts(); }
  AmxExecutor executor;
  std::mt19937 random{7};
};

TEST_F(AmxExecutorTest, IntrinsicsOfEveryInstruction) {
  TileConfig config = fullTiles(), stored;
  Bytes a(random), b(random), c(random), out(random);
  _tile_loadconfig(&config);
  _tile_storeconfig(&stored);
  EXPECT_EQ(std::memcmp(&config, &stored, sizeof(config)), 0);
  TileState want;
  auto bytes = [](auto &x) { return reinterpret_cast<std::byte *>(x.at); };
  ASSERT_EQ(want.loadConfig(&config), nullptr);
  ASSERT_EQ(want.load(1, bytes(a), 64), nullptr);
  ASSERT_EQ(want.load(2, bytes(b), 64), nullptr);
  ASSERT_EQ(want.load(0, bytes(c), 64), nullptr);
  _tile_loadd(1, a.at, 64);
  _tile_stream_loadd(2, b.at, 64);
  _tile_loadd(0, c.at, 64);
  auto expectSame = [&] {
    _tile_stored(0, out.at, 64);
    EXPECT_EQ(std::memcmp(out.at, want.data(0), sizeof(out.at)), 0);
  };
  expectSame();
  _tile_dpbssd(0, 1, 2);
  ASSERT_EQ(want.multiply(TileOp::TdpBssd, 0, 1, 2), nullptr);
  expectSame();
  _tile_dpbsud(0, 1, 2);
  ASSERT_EQ(want.multiply(TileOp::TdpBsud, 0, 1, 2), nullptr);
  expectSame();
  _tile_dpbusd(0, 1, 2);
  ASSERT_EQ(want.multiply(TileOp::TdpBusd, 0, 1, 2), nullptr);
  expectSame();
  _tile_dpbuud(0, 1, 2);
  ASSERT_EQ(want.multiply(TileOp::TdpBuud, 0, 1, 2), nullptr);
  expectSame();
  // As BF16 these bytes are ordinary numbers.
  for (int i = 0; i < 512; ++i) {
    uint16_t value = uint16_t(0x3f00 | (random() & 0x80ff));
    std::memcpy(a.at + 2 * i, &value, 2);
    std::memcpy(b.at + 2 * (511 - i), &value, 2);
  }
  _tile_loadd(1, a.at, 64);
  _tile_loadd(2, b.at, 64);
  _tile_zero(0);
  ASSERT_EQ(want.load(1, bytes(a), 64), nullptr);
  ASSERT_EQ(want.load(2, bytes(b), 64), nullptr);
  ASSERT_EQ(want.zero(0), nullptr);
  expectSame();
  _tile_dpbf16ps(0, 1, 2);
  ASSERT_EQ(want.multiply(TileOp::TdpBf16ps, 0, 1, 2), nullptr);
  expectSame();
  _tile_release();
  _tile_storeconfig(&stored);
  TileConfig zero = {};
  EXPECT_EQ(std::memcmp(&zero, &stored, sizeof(zero)), 0);

  if (AmxExecutor::isNative())
    return;
  TileCounts counts = AmxExecutor::counts();
  const std::array<uint64_t, kTileOps> times{1, 2, 1, 1, 4, 1,
                                             7, 1, 1, 1, 1, 1};
  for (int i = 0; i < kTileOps; ++i)
    EXPECT_EQ(counts.executed[size_t(i)], times[size_t(i)])
        << tileOpName(TileOp(i));
  EXPECT_EQ(counts.products(), 5u);
  EXPECT_EQ(counts.loads(), 5u);
  EXPECT_EQ(counts.macs, uint64_t(4 * 16 * 16 * 64 + 16 * 16 * 32));
  EXPECT_EQ(counts.capacity, counts.macs);
}

TEST_F(AmxExecutorTest, SmallTilesCountTheirOwnSize) {
  TileConfig config = fullTiles();
  config.rows[0] = config.rows[1] = 3;
  config.rowBytes[1] = 20;
  config.rows[2] = 5;
  config.rowBytes[0] = config.rowBytes[2] = 28;
  _tile_loadconfig(&config);
  _tile_dpbssd(0, 1, 2);
  _tile_release();
  if (AmxExecutor::isNative())
    return;
  EXPECT_EQ(AmxExecutor::counts().macs, 3u * 7 * 20);
  EXPECT_EQ(AmxExecutor::counts().capacity, 16u * 16 * 64);
}

/// Machine code assembled at run time: it moves the first two arguments into
/// base and index registers, then executes one instruction with a SIB byte.
class Assembled {
public:
  Assembled(int base, int index, int scale, bool wide) {
    const uint8_t callerSaves[] = {0x53, 0x55, 0x41, 0x54, 0x41,
                                   0x55, 0x41, 0x56, 0x41, 0x57};
    append(callerSaves);
    // Through the stack, because either register may be rdi or rsi.
    put(0x57), put(0x56); // push rdi, rsi
    pop(index);
    pop(base);
    // tileloadd displacement(base, index), tmm3
    put(0xc4);
    put(uint8_t(0x82 | (index < 8 ? 0x40 : 0) | (base < 8 ? 0x20 : 0)));
    put(0x7b), put(0x4b);
    put(uint8_t((wide ? 0x80 : 0x40) | 3 << 3 | 4));
    put(uint8_t(scale << 6 | (index & 7) << 3 | (base & 7)));
    int32_t displacement = wide ? kWide : kNarrow;
    for (int i = 0; i < (wide ? 4 : 1); ++i)
      put(uint8_t(displacement >> 8 * i));
    const uint8_t restore[] = {0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d,
                               0x41, 0x5c, 0x5d, 0x5b, 0xc3};
    append(restore);
  }
  static constexpr int32_t kNarrow = -16, kWide = 4660;

  std::vector<uint8_t> code;

private:
  void put(uint8_t byte) { code.push_back(byte); }
  template <size_t N> void append(const uint8_t (&bytes)[N]) {
    code.insert(code.end(), bytes, bytes + N);
  }
  void pop(int number) {
    if (number > 7)
      put(0x41);
    put(uint8_t(0x58 | (number & 7)));
  }
};

TEST_F(AmxExecutorTest, EveryRegisterIsReadFromTheInterruptedThread) {
  void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    GTEST_SKIP() << "this system allows no writable, executable memory";
  TileConfig config = fullTiles();
  config.rows[3] = 4;
  config.rowBytes[3] = 16;
  std::vector<uint8_t> memory(8192);
  for (uint8_t &byte : memory)
    byte = uint8_t(random());
  for (int base = 0; base < 16; ++base)
    for (int index = 0; index < 16; ++index) {
      if (base == 4 || index == 4 || base == index)
        continue; // The stack pointer has its own test.
      int scale = (base + index) % 4;
      bool wide = index % 2;
      Assembled assembled(base, index, scale, wide);
      std::memcpy(page, assembled.code.data(), assembled.code.size());
      _tile_loadconfig(&config);
      auto function =
          reinterpret_cast<void (*)(const uint8_t *, int64_t)>(page);
      const uint8_t *from = memory.data() + 1000;
      function(from - (wide ? Assembled::kWide : Assembled::kNarrow), 24);
      uint8_t got[4 * 16];
      _tile_stored(3, got, 16);
      for (int row = 0; row < 4; ++row)
        ASSERT_EQ(std::memcmp(got + 16 * row, from + row * (24 << scale), 16),
                  0)
            << "base " << base << ", index " << index << ", row " << row;
    }
  _tile_release();
  munmap(page, 4096);
}

TEST_F(AmxExecutorTest, StackAndInstructionPointersAsBase) {
  alignas(64) static const TileConfig config = fullTiles();
  uint64_t word = 0;
  asm volatile("ldtilecfg %1\n\t"
               "sub $256, %%rsp\n\t"
               "sttilecfg 64(%%rsp)\n\t"
               "mov 112(%%rsp), %0\n\t"
               "add $256, %%rsp\n\t"
               "tilerelease"
               : "=r"(word)
               : "m"(config)
               : "memory", "cc");
  EXPECT_EQ(word, 0x1010101010101010u); // Rows of the eight tiles.
}

TEST_F(AmxExecutorTest, TilesBelongToAThread) {
  TileConfig config = fullTiles();
  Bytes mine(random), theirs(random), got(random);
  _tile_loadconfig(&config);
  _tile_loadd(4, mine.at, 64);
  std::thread([&] {
    // Linux copies the configuration to a new thread.
    if (!AmxExecutor::isNative()) {
      TileConfig stored = fullTiles();
      _tile_storeconfig(&stored);
      EXPECT_EQ(stored.palette, 0) << "a new thread has no configuration";
    }
    config.rows[4] = 2;
    _tile_loadconfig(&config);
    _tile_loadd(4, theirs.at, 64);
    _tile_release();
  }).join();
  _tile_stored(4, got.at, 64);
  EXPECT_EQ(std::memcmp(got.at, mine.at, sizeof(mine.at)), 0);
  _tile_release();
}

using AmxExecutorDeathTest = AmxExecutorTest;

TEST_F(AmxExecutorDeathTest, FaultsNameInstructionAndConfiguration) {
  if (AmxExecutor::isNative())
    return; // The CPU raises the faults itself.
  TileConfig config = fullTiles();
  EXPECT_DEATH(
      {
        config.palette = 2;
        _tile_loadconfig(&config);
      },
      "LDTILECFG at 0x[0-9a-f]+ raises #GP: the palette");
  EXPECT_DEATH(_tile_zero(1), "TILEZERO at .* raises #UD: no tile config");
  EXPECT_DEATH(
      {
        config.rows[2] = 8;
        _tile_loadconfig(&config);
        _tile_dpbssd(0, 1, 2);
      },
      "TDPBSSD at .* raises #UD: the left factor's columns.*\n.*tmm0 tmm1 "
      "tmm2; palette 1, start_row 0, rows x bytes 16x64 16x64 8x64");
}

TEST_F(AmxExecutorDeathTest, OtherIllegalInstructionsPassOn) {
  EXPECT_EXIT(asm volatile("ud2"), testing::KilledBySignal(SIGILL), "");
}

int handled = 0;
void skipUd2(int, siginfo_t *, void *context) {
  ++handled;
  static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP] += 2;
}

TEST(AmxExecutorChainTest, ThePreviousHandlerIsCalled) {
  struct sigaction action = {}, before;
  action.sa_sigaction = skipUd2;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before);
  {
    AmxExecutor executor;
    TileConfig config = fullTiles();
    _tile_loadconfig(&config);
    asm volatile("ud2");
    _tile_release();
  }
  EXPECT_EQ(handled, 1);
  asm volatile("ud2"); // The executor has restored the handler.
  EXPECT_EQ(handled, 2);
  sigaction(SIGILL, &before, nullptr);
}

TEST(HostAmxTest, RefusalsNameTheirReason) {
  AmxSupport facts;
  EXPECT_EQ(amxRefusalFor(facts), kCpuLacksIsa);
  facts.cpu = true;
  EXPECT_NE(amxRefusalFor(facts).find("does not save"), std::string::npos);
  facts.saved = true;
  EXPECT_EQ(amxRefusalFor(facts), "");
  facts.permissionError = 1;
  EXPECT_NE(amxRefusalFor(facts).find("forbids"), std::string::npos);
}

TEST(HostAmxTest, TheExecutorMakesThisHostOneWithAmx) {
  EXPECT_EQ(hostSupports(Isa::Amx), hostSupports(Isa::Avx512));
}

} // namespace
