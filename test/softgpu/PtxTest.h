//===- PtxTest.h - Test fixture of the software GPU -------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_PTXTEST_H
#define MOE_TEST_SOFTGPU_PTXTEST_H

#include "test/softgpu/TestGpu.h"

#include <bit>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

namespace softgpu {

/// Operands a, b, c, e of one thread, as bits.
struct Operands {
  uint64_t a = 0, b = 0, c = 0, e = 0;
};

/// Widths of %d, %a, %b, %c, %e in bits; 1 means a predicate, 0 not used.
struct Widths {
  int d = 32, a = 32, b = 0, c = 0, e = 0;
};

class PtxTest : public ::testing::Test {
protected:
  /// Whether a driver runs the kernels: then there are no counters and options,
  /// and no findings other than its errors.
  static bool isOnDriver() { return TestGpu::driver() != nullptr; }
  /// "header + kernel k(.param .u64 p0, p1, ...) { registers; body; ret; }",
  /// with %r0-99 (b32), %rd0-99 (b64), %f0-99, %h0-99 (b16), %p0-99.
  std::string kernelText(const std::string &body, int params = 4, int arch = 80,
                         const std::string &globals = "");
  /// Loads such a kernel, or fails the test.
  const Kernel &kernel(const std::string &body, int params = 4, int arch = 80,
                       const std::string &globals = "");
  const Kernel &loadText(const std::string &text,
                         const std::string &name = "k");
  /// Returns why a kernel with this body does not load; empty if it does.
  std::string loadError(const std::string &body, int arch = 80);

  /// Runs `instructions` in one thread per row of `rows`; returns %d of each,
  /// zero-extended.
  std::vector<uint64_t> evaluate(const std::string &instructions, Widths widths,
                                 const std::vector<Operands> &rows);

  /// Expects that `instructions`, over edge cases and random operands, give
  /// `expected` in all bits of %d.
  void expectBits(const std::string &instructions, Widths widths,
                  const std::function<uint64_t(const Operands &)> &expected,
                  bool areFloats = false);

  template <class T>
  uint64_t upload(const std::vector<T> &values, std::string name = "input") {
    uint64_t address =
        gpu.memory().allocate(values.size() * sizeof(T), std::move(name));
    gpu.memory().copyIn(address, values.data(), values.size() * sizeof(T));
    return address;
  }
  template <class T> std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(
        gpu.memory().copyOut(values.data(), address, count * sizeof(T)));
    return values;
  }
  uint64_t zeros(size_t bytes, std::string name = "output") {
    uint64_t address = gpu.memory().allocate(bytes, std::move(name));
    gpu.memory().fill(address, 0, bytes);
    return address;
  }

  /// Succeeds if there is a finding of this kind whose text contains all of
  /// `parts`.
  static ::testing::AssertionResult
  found(const LaunchResult &result, FindingKind kind,
        const std::vector<std::string> &parts = {});
  static ::testing::AssertionResult isClean(const LaunchResult &result);

  TestGpu gpu;
};

inline float floatOf(uint64_t bits) {
  return std::bit_cast<float>(uint32_t(bits));
}
inline double doubleOf(uint64_t bits) { return std::bit_cast<double>(bits); }
inline uint64_t bitsOf(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t bitsOf(double value) { return std::bit_cast<uint64_t>(value); }

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_PTXTEST_H
