//===- SoftCpuTest.cpp - Tests of the software CPU ------------------------===//
//
// Tests with instructions that every CPU has: how they are copied, and how
// flags, branches, calls and stacks work. VectorInstructionTest covers AVX-512.
//
//===----------------------------------------------------------------------===//

#include "test/softcpu/SoftCpu.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace moek::test {
namespace {

class SoftCpuTest : public testing::Test {
protected:
  void SetUp() override {
    if (!SoftCpu::isAvailable())
      GTEST_SKIP() << "needs AVX2 and writable, executable memory";
  }

  template <class... Args> static uint64_t run(const void *f, Args... args) {
    const uint64_t words[] = {uint64_t(args)..., 0};
    return SoftCpu::call(reinterpret_cast<uint64_t>(f),
                         std::span(words, sizeof...(args)));
  }
};

template <class Function> const void *code(Function *function) {
  return reinterpret_cast<const void *>(function);
}

[[gnu::noinline]] uint64_t fibonacci(uint64_t n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

TEST_F(SoftCpuTest, CallsAndReturns) {
  EXPECT_EQ(run(code(fibonacci), 15), 610u);
  // The stack is as large as a small thread's.
  EXPECT_EQ(run(code(fibonacci), 1), 1u);
}

[[gnu::noinline]] uint64_t manyArguments(uint64_t a, uint64_t b, uint64_t c,
                                         uint64_t d, uint64_t e, uint64_t f,
                                         uint64_t g, uint64_t h, uint64_t i) {
  return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h + 19 * i;
}

TEST_F(SoftCpuTest, ArgumentsInRegistersAndOnTheStack) {
  EXPECT_EQ(run(code(manyArguments), 1, 2, 3, 4, 5, 6, 7, 8, 9),
            manyArguments(1, 2, 3, 4, 5, 6, 7, 8, 9));
}

// moeStack returns the stack pointer at entry; moeReleases returns by how much
// it differs after a callee that drops two words.
__asm__(".text\nmoeStack:\n  mov %rsp, %rax\n  ret\n"
        "moeReleases:\n  mov %rsp, %rcx\n  push $1\n  push $2\n  call 1f\n"
        "  mov %rcx, %rax\n  sub %rsp, %rax\n  mov %rcx, %rsp\n  ret\n"
        "1:\n  ret $16\n");
extern "C" const char moeStack, moeReleases;

TEST_F(SoftCpuTest, StackPointer) {
  // By convention, the stack pointer is a multiple of 16 before the call pushes
  // an address.
  EXPECT_EQ(run(&moeStack) % 16, 8u);
  EXPECT_EQ(run(&moeStack, 1, 2, 3, 4, 5, 6, 7) % 16, 8u);
  EXPECT_EQ(run(&moeStack, 1, 2, 3, 4, 5, 6, 7, 8) % 16, 8u);
  EXPECT_EQ(run(&moeReleases), 0u);
}

/// Branches on every condition, signed, unsigned and on floats.
[[gnu::noinline]] uint64_t conditions(uint64_t a, uint64_t b) {
  uint64_t bits = 0;
  auto note = [&](bool value) { bits = bits * 2 + value; };
  for (int turn = 0; turn < 2; ++turn, std::swap(a, b)) {
    if (int64_t(a) < int64_t(b))
      note(true), ++a;
    if (int64_t(a) <= int64_t(b))
      note(a < 7), --b;
    if (a < b)
      note(int64_t(a) > 5), a += 3;
    if (a <= b)
      note(true);
    if (a == b || int64_t(a - b) < 0)
      note(false), b ^= 5;
    double x = double(a), y = a == 7 ? NAN : double(b);
    if (x < y)
      note(true);
    if (!(x >= y))
      note(false);
    int64_t sum;
    if (__builtin_add_overflow(int64_t(a), int64_t(b), &sum))
      note(true);
    note(__builtin_parity(unsigned(a)));
  }
  return bits;
}

TEST_F(SoftCpuTest, Conditions) {
  const uint64_t values[] = {0,     1,     5,          7,         8,
                             ~0ull, ~6ull, 1ull << 63, ~0ull >> 1};
  for (uint64_t a : values)
    for (uint64_t b : values)
      EXPECT_EQ(run(code(conditions), a, b), conditions(a, b)) << a << " " << b;
}

[[gnu::noinline]] uint64_t choose(uint64_t which, uint64_t value) {
  switch (which) { // Compiles to a jump table, that is, an indirect jump.
  case 0:
    return value + 1;
  case 1:
    return value * 3;
  case 2:
    return ~value;
  case 3:
    return value >> (value & 31);
  case 4:
    return uint64_t(std::sqrt(double(value)));
  case 5:
    return value % 13;
  case 6:
    return uint64_t(__builtin_clzll(value | 1));
  default:
    return value << (value & 63);
  }
}

TEST_F(SoftCpuTest, JumpTables) {
  for (uint64_t which = 0; which < 9; ++which)
    for (uint64_t value : {0ull, 1ull, 64ull, 0x123456789abcdefull})
      EXPECT_EQ(run(code(choose), which, value), choose(which, value));
}

[[gnu::noinline]] double sumOf(const double *values, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i)
    sum += values[i] * double(i);
  return sum;
}

[[gnu::noinline]] void sumInto(const double *values, uint64_t count,
                               double *sum) {
  *sum = sumOf(values, count) + 0.5; // The constant is a RIP-relative operand.
}

TEST_F(SoftCpuTest, FloatsAndConstants) {
  std::vector<double> values(100);
  std::iota(values.begin(), values.end(), -3.25);
  double sum = 0;
  SoftCpu::call<const double *, uint64_t, double *>(sumInto, values.data(), 100,
                                                    &sum);
  EXPECT_EQ(sum, sumOf(values.data(), 100) + 0.5);
}

[[gnu::noinline]] uint64_t copyAndCompare(char *to, const char *from,
                                          uint64_t bytes) {
  std::memcpy(to, from, bytes);
  std::vector<int> sorted{3, 1, 2};
  return uint64_t(std::memcmp(to, from, bytes) == 0) + 10 * sorted.size() +
         100 * std::strlen(to);
}

TEST_F(SoftCpuTest, FunctionsOfOtherLibraries) {
  std::string from(1000, 'x'), to(1001, '\0');
  EXPECT_EQ(run(code(copyAndCompare), to.data(), from.data(), 1000),
            100u * 1000 + 31);
  EXPECT_EQ(to.substr(0, 1000), from);
}

[[gnu::noinline]] uint64_t callThrough(uint64_t (*function)(uint64_t),
                                       uint64_t value) {
  return function(value) + 1;
}
uint64_t twice(uint64_t value) { return 2 * value; }
uint64_t thrice(uint64_t value) { return 3 * value; }

TEST_F(SoftCpuTest, PointersToFunctionsAndRedirections) {
  EXPECT_EQ(run(code(callThrough), code(twice), 20), 41u);
  SoftCpu::redirect(reinterpret_cast<uint64_t>(&twice),
                    reinterpret_cast<uint64_t>(&thrice));
  // Known blocks may remember their successors; a new machine does not.
  std::thread([] {
    EXPECT_EQ(run(code(callThrough), code(twice), 20), 61u);
  }).join();
}

// Executes 2 + 3 rdi instructions.
__asm__(".text\nmoeLoop:\n  xor %eax, %eax\n1:\n  inc %eax\n  cmp %edi, %eax\n"
        "  jne 1b\n  ret\n");
extern "C" const char moeLoop;

TEST_F(SoftCpuTest, CountsInstructions) {
  uint64_t before = SoftCpu::executed();
  EXPECT_EQ(run(&moeLoop, 100), 100u);
  EXPECT_EQ(SoftCpu::executed() - before, 302u);
}

// rdi: a value, rsi: a count, rdx: where to store the flags.
#define MOE_FLAGS_OF(name, instruction)                                        \
  __asm__(".text\n" #name ":\n  mov %rsi, %rcx\n  cmp %rdi, %rdi\n"            \
          "  stc\n  jmp 1f\n1:\n  " instruction                                \
          "\n  jmp 1f\n1:\n  pushf\n  pop (%rdx)\n  mov %rdi, %rax\n  ret\n"); \
  extern "C" const char name

MOE_FLAGS_OF(moeShiftByCount, "shl %cl, %rdi");
MOE_FLAGS_OF(moeRotateByCount, "ror %cl, %rdi");
MOE_FLAGS_OF(moeIncrement, "inc %rdi");
MOE_FLAGS_OF(moeAddCarry, "adc %rsi, %rdi");
MOE_FLAGS_OF(moeNot, "not %rdi");

TEST_F(SoftCpuTest, FlagsThatAnInstructionKeepsOrReads) {
  constexpr uint64_t kCarry = 1, kZero = 1 << 6, kOverflow = 1 << 11;
  uint64_t flags = 0;
  // After cmp and stc, carry and zero are set. The instructions below are in a
  // block of their own and
  // A shift by 0 leaves all flags.
  EXPECT_EQ(run(&moeShiftByCount, 5, 0, &flags), 5u);
  EXPECT_EQ(flags & (kCarry | kZero), kCarry | kZero);
  EXPECT_EQ(run(&moeShiftByCount, 5, 1, &flags), 10u);
  EXPECT_EQ(flags & (kCarry | kZero), 0u);
  // A rotation leaves the zero flag.
  EXPECT_EQ(run(&moeRotateByCount, 2, 1, &flags), 1u);
  EXPECT_EQ(flags & (kCarry | kZero), kZero);
  // An increment leaves the carry flag.
  EXPECT_EQ(run(&moeIncrement, 5, 0, &flags), 6u);
  EXPECT_EQ(flags & (kCarry | kZero), kCarry);
  EXPECT_EQ(run(&moeIncrement, INT64_MAX, 0, &flags), 1ull << 63);
  EXPECT_EQ(flags & (kCarry | kOverflow), kCarry | kOverflow);
  EXPECT_EQ(run(&moeAddCarry, 5, 7, &flags), 13u); // adc reads the carry flag.
  EXPECT_EQ(flags & kCarry, 0u);
  EXPECT_EQ(run(&moeNot, 5, 0, &flags), ~5ull); // This leaves all flags.
  EXPECT_EQ(flags & (kCarry | kZero), kCarry | kZero);
}

// A vpaddd of 128 bits zeroes the bytes above, a paddd keeps them. rdi: 2 x 64
// bytes.
__asm__(".text\nmoeUppers:\n"
        "  vmovups (%rdi), %zmm0\n  vmovups (%rdi), %zmm1\n"
        "  vmovups (%rdi), %zmm9\n"
        "  vpaddd %xmm0, %xmm0, %xmm0\n  paddd %xmm1, %xmm1\n"
        "  vmovups %zmm0, (%rdi)\n  vmovups %zmm1, 64(%rdi)\n"
        "  vmovups %zmm9, 192(%rdi)\n  vzeroupper\n"
        "  vmovups %zmm9, 128(%rdi)\n  ret\n");
extern "C" const char moeUppers;

TEST_F(SoftCpuTest, BytesAboveAShorterVector) {
  uint32_t words[64];
  std::iota(std::begin(words), std::end(words), 1);
  run(&moeUppers, words);
  for (uint32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(words[i], i < 4 ? 2 * (i + 1) : 0) << i;
    EXPECT_EQ(words[16 + i], i < 4 ? 2 * (i + 1) : i + 1) << i;
    EXPECT_EQ(words[32 + i], i < 4 ? i + 1 : 0) << i;
    EXPECT_EQ(words[48 + i], i + 1) << i;
  }
}

TEST_F(SoftCpuTest, EveryThreadHasItsOwnCpu) {
  std::vector<std::thread> threads;
  std::vector<uint64_t> results(4);
  for (uint64_t i = 0; i < 4; ++i)
    threads.emplace_back([&results, i] {
      for (int turn = 0; turn < 10; ++turn)
        results[i] += run(code(fibonacci), 10 + i);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(results[i], 10 * fibonacci(10 + i));
}

__asm__(".text\nmoeUnknown:\n  vexp2ps %zmm0, %zmm0\n  ret\n");
extern "C" const char moeUnknown;

TEST_F(SoftCpuTest, AnUnknownInstructionIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run(&moeUnknown), "cannot execute 'vexp2ps zmm0, zmm0' at 0x");
}

} // namespace
} // namespace moek::test
