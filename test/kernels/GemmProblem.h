//===- GemmProblem.h - Random weights and activations for gemms -*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_GEMMPROBLEM_H
#define MOE_TEST_KERNELS_GEMMPROBLEM_H

#include "kernels/Activation.h"
#include "kernels/Registry.h"
#include "test/kernels/GuardedBuffer.h"

#include <random>
#include <vector>

namespace moek::test {

/// Returns every gemm that this program tests: those of Gemms.def that this CPU
/// can run, or those of the GPU.
std::vector<GemmInfo> testedGemms();

/// How much more a GPU rounds than integer products do where it unpacks panels
/// to F16 in prefill (kernels/cuda/HalfPanels.cuh), for each product of a
/// weight, counted with the magnitude of its offset, and an activation: the
/// weight's scale and offset, the weight, and the activation. 0 elsewhere.
inline double panelRounding = 0;
inline constexpr double kPanelRounding = 3 * 0x1p-11;

/// Fills random blocks whose F16 and float scales are ordinary numbers.
void randomWeights(Format format, int64_t rows, int64_t cols, int64_t stride,
                   std::mt19937 &random, uint8_t *out);

/// Converts `count` GGUF rows to `layout`: the result begins with weight row 0,
/// and rows are rowBytes(layout, ...) apart (a whole number of panels in
/// Rows16).
std::vector<uint8_t> layOut(Layout layout, Format format,
                            const std::vector<uint8_t> &rows, int64_t count,
                            int64_t cols);

/// Makes one A8 row with random codes (including both extremes) and scales,
/// each for `blockCols` columns.
void randomA8Row(int64_t cols, int64_t blockCols, std::mt19937 &random,
                 uint8_t *row);

/// Returns the row's values as a gemm must interpret them.
std::vector<double> decodeActivation(Encoding encoding, const uint8_t *row,
                                     int64_t cols);

/// Weights and activations of one product, each ending at a guard page, with
/// the exact product and the error that rounding may cause.
class GemmProblem {
public:
  /// Number of F16 numbers in a block; 1 if the block is a number itself; 0 if
  /// any bits of it are finite numbers.
  static int scaleCount(Format format);

  GemmProblem(const GemmInfo &gemm, int64_t rows, int64_t tokens, int64_t cols,
              uint32_t seed);

  const uint8_t *weights() const { return weights_.data(); }
  int64_t stride() const { return stride_; }
  /// Replaces a token's activations by `q` (times its scale, if it has scales)
  /// in one column and zeros in the others.
  void makeUnit(int64_t token, int64_t col, int8_t q);
  /// Writes a NaN or infinity to a block of a row: to its scale number `scale`
  /// of scaleCount(), if it has any.
  void breakRow(int64_t row, int64_t block, int scale = 0,
                bool infinite = false);

  /// [tokens] pointers to rows, which are not in the order of their addresses.
  const uint8_t *const *activations() const { return pointers_.data(); }
  uint8_t *activation(int64_t token) {
    return const_cast<uint8_t *>(pointers_[size_t(token)]);
  }

  struct Expected {
    double value;
    double tolerance;
  };
  Expected expected(int64_t row, int64_t token) const;

private:
  void layOutWeights();

  GemmInfo gemm_;
  int64_t rows_, cols_, stride_, fileStride_;
  std::vector<uint8_t> file_; ///< The weights as a model file has them.
  GuardedBuffer weights_, activations_;
  std::vector<const uint8_t *> pointers_;
  std::vector<std::vector<float>> values_; ///< [rows][cols]
  std::vector<std::vector<float>> bounds_; ///< [rows][cols]
  /// [rows][cols] Error that the kernel's own rounding causes in weights.
  std::vector<std::vector<float>> errors_;
  std::vector<std::vector<double>> decoded_; ///< [tokens][cols]
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_GEMMPROBLEM_H
