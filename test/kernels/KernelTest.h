//===- KernelTest.h - Runs op kernels as the executor would -----*- C++ -*-===//
//
// A test is written once per op and instantiated for every line of Kernels.def
// of that op whose ISA this machine has. It fills poisoned, guarded buffers and
// runs the kernel with 1 to 9 workers on 1 to 4 NUMA nodes, with and without
// tickets. All runs must give equal bytes, which are compared with the test's
// own float64 computation.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_KERNELTEST_H
#define MOE_TEST_KERNELS_KERNELTEST_H

#include "kernels/Abi.h"
#include "kernels/Registry.h"
#include "kernels/Scratch.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace moek {
/// Used in GoogleTest's messages.
inline std::ostream &operator<<(std::ostream &out, const KernelInfo &kernel) {
  return out << kernel.name;
}

} // namespace moek

namespace moek::test {

/// Half an ulp of a float of magnitude 1.
inline constexpr double kEps = 0x1p-24;

class Random {
public:
  explicit Random(uint32_t seed) : engine(seed) {}
  float normal(float scale = 1) {
    return scale * std::normal_distribution<float>()(engine);
  }
  int below(int n) { return int(engine() % unsigned(n)); }
  uint8_t byte() { return uint8_t(engine()); }

private:
  std::mt19937 engine;
};

/// 64-byte aligned memory between two guards.
class Guarded {
public:
  explicit Guarded(size_t bytes);
  std::byte *data() const { return payload; }
  size_t size() const { return bytes; }
  /// Sets all bytes to 0xff: NaN as float, -1 as integer.
  void poison() { std::memset(payload, 0xff, bytes); }
  void expectGuardsIntact(const char *what) const;

private:
  size_t bytes;
  std::unique_ptr<std::byte[]> storage;
  std::byte *payload;
};

/// A buffer that a kernel writes.
class Output {
public:
  virtual ~Output() = default;
  virtual void reset() = 0;
  virtual void expectOnlyPayloadWritten() const = 0;
  virtual std::vector<uint8_t> bytes() const = 0;
};

/// Rows of T, `stride` apart, the gaps between them poisoned.
template <class T> class Matrix : public Output {
public:
  Matrix(int64_t rows, int64_t cols, int64_t gap = 0)
      : rows(rows), cols(cols), stride(cols + gap),
        memory(size_t(rows * stride) * sizeof(T)) {
    memory.poison();
  }
  T *data() const { return reinterpret_cast<T *>(memory.data()); }
  T *row(int64_t r) const { return data() + r * stride; }
  T &at(int64_t r, int64_t c) const { return row(r)[c]; }
  void fill(Random &random, float scale = 1) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        at(r, c) = random.normal(scale);
  }
  /// Makes reset() restore the present contents, for buffers updated in place.
  void keepAsInitial() {
    initial.assign(memory.data(), memory.data() + memory.size());
  }
  void reset() override {
    memory.poison();
    if (!initial.empty())
      std::memcpy(memory.data(), initial.data(), initial.size());
  }
  void expectOnlyPayloadWritten() const override {
    memory.expectGuardsIntact("output");
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = cols * int64_t(sizeof(T));
           i < stride * int64_t(sizeof(T)); ++i)
        ASSERT_EQ(reinterpret_cast<const uint8_t *>(row(r))[i], 0xff)
            << "written beyond row " << r;
  }
  std::vector<uint8_t> bytes() const override {
    const auto *p = reinterpret_cast<const uint8_t *>(memory.data());
    return {p, p + memory.size()};
  }

  int64_t rows, cols, stride;

private:
  Guarded memory;
  std::vector<std::byte> initial;
};

/// The workers that the executor would create for one instruction.
struct TestWorkers {
  int workers, nodes;
  bool withTickets;
  std::vector<uint32_t> tickets = {};

  static constexpr int64_t kTicketStride = 3;
  Worker worker(int index, std::byte *scratch);
};
std::vector<TestWorkers> testTeams();

/// Runs `kernel` with several sets of workers; see the top of this file.
void runKernel(const KernelInfo &kernel, const void *args, Step step,
               size_t scratchBytes, std::vector<Output *> outputs);

/// Runs `kernel` once with one worker, without resetting outputs.
void runOnce(const KernelInfo &kernel, const void *args, Step step,
             size_t scratchBytes);

/// An expected value and the error that a correct kernel may have.
struct Wanted {
  double value, tolerance;
};

/// Compares `cols` values of each row with want(row, col) and reports the
/// worst. A NaN is expected where want's value is NaN, and only there.
template <class Want> void expectClose(const Matrix<float> &got, Want want) {
  double worst = 0;
  std::string report;
  for (int64_t r = 0; r < got.rows; ++r)
    for (int64_t c = 0; c < got.cols; ++c) {
      Wanted w = want(r, c);
      double value = got.at(r, c), miss;
      if (std::isnan(w.value) || std::isnan(value) || std::isinf(w.value))
        miss = (std::isnan(w.value) && std::isnan(value)) || w.value == value
                   ? 0
                   : HUGE_VAL;
      else
        miss = std::fabs(value - w.value) / (w.tolerance + 1e-40);
      if (miss > worst) {
        worst = miss;
        report = "worst at [" + std::to_string(r) + ", " + std::to_string(c) +
                 "]: got " + std::to_string(value) + ", want " +
                 std::to_string(w.value) + " +- " + std::to_string(w.tolerance);
      }
    }
  EXPECT_LE(worst, 1) << report;
}

/// Error bound of a float sum of `terms` products whose magnitudes add up to
/// `magnitude`: lanes add in sequence, then in a tree.
inline double sumTolerance(int64_t terms, double magnitude) {
  return kEps * (double(terms) / 8 + 16) * magnitude;
}

std::vector<KernelInfo> kernelsOf(OpCode op);
std::string kernelName(const testing::TestParamInfo<KernelInfo> &info);

/// Defines a fixture `suite`, instantiated for all kernels of `op`.
#define MOE_KERNEL_SUITE(suite, op)                                            \
  class suite : public testing::TestWithParam<moek::KernelInfo> {};            \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(suite);                        \
  INSTANTIATE_TEST_SUITE_P(                                                    \
      Kernels, suite, testing::ValuesIn(moek::test::kernelsOf(OpCode::op)),    \
      moek::test::kernelName)

/// `outer` matrices of random weights in `format`, with their decoded values.
struct Weights {
  Weights(Format format, int64_t outer, int64_t rows, int64_t cols,
          Random &random, float scale = 1);
  double at(int64_t o, int64_t r, int64_t c) const {
    return values[size_t((o * view.rows + r) * view.cols + c)];
  }
  /// The largest magnitude in a row, on which the rounding of an element
  /// depends if the format adds an offset to a product.
  double largest(int64_t o, int64_t r) const {
    double most = 0;
    for (int64_t c = 0; c < view.cols; ++c)
      most = std::fmax(most, std::fabs(at(o, r, c)));
    return most;
  }
  WeightView view;
  std::vector<double> values;
  std::unique_ptr<Guarded> memory;
};

/// Returns every format with kernels; ops that decode weights are tested with
/// all.
std::vector<Format> allFormats();

/// A cache of `capacity` rows with `filled` random ones; the rest is NaN. There
/// are `gap` bytes between rows.
struct Cache {
  Cache(KvType type, int64_t width, int64_t capacity, int64_t filled,
        Random &random, int64_t gap = 8);
  double at(int64_t row, int64_t col) const;
  /// With Q8_0 only NaN is allowed, which affects the whole block.
  void set(int64_t row, int64_t col, float value);
  /// Sets a whole row, rounded to what the type can represent.
  template <class Value> void fill(int64_t row, Value value) {
    std::vector<float> x;
    for (int64_t c = 0; c < view.width; ++c)
      x.push_back(value(c));
    fill(row, x);
  }
  void fill(int64_t row, const std::vector<float> &x);
  /// The scale of a Q8_0 block.
  double scaleAt(int64_t row, int64_t col) const { return *scale(row, col); }
  /// Returns the stored bytes of a row, including padding.
  std::vector<uint8_t> rowBytes(int64_t row) const;
  KvView view;
  int64_t rowsPerUnit; ///< Cache rows per row of `memory`; > 1 for tiles.
  Matrix<uint8_t> memory;

private:
  uint8_t *code(int64_t row, int64_t col) const;
  float *scale(int64_t row, int64_t col) const;
  void fillQ8(int64_t row, Random &random);
};

inline constexpr KvType kKvTypes[] = {KvType::F32, KvType::F16, KvType::BF16,
                                      KvType::Q8_0};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_KERNELTEST_H
